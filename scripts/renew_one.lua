--[[
Part of the scripts that renew one lock by `renew`. If they have written, their last command on the lock
is a read, so that client tracking reports the next change.
]]
local result = renew(KEYS[1], ARGV[1], ARGV[2])
if ARGV[1] ~= '-1' then
    redis.call('exists', KEYS[1])
end
return result
