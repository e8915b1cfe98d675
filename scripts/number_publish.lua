--[[
Part of the scripts of a number: publishes that it has changed, if the user may. Needs `value`, the number
now. Defines `n_receivers`, negative if the message could not be published.

ARGV[1]  the message, "" if it is `value`
ARGV[2]  channel of the number
ARGV[3]  SPUBLISH if the channel is sharded, else PUBLISH
]]
local n_receivers = redis.pcall(ARGV[3], ARGV[2], ARGV[1] ~= '' and ARGV[1] or value)
if type(n_receivers) == 'table' then
    n_receivers = -1
end
