--[[
Part of scripts that free a lock with one key: deletes it, publishes that, and tells the first client
in line. Needs `channel`, "" if the lock has none, which ends the script with 1; `message`;
`publish`, the command if it is another one; and `me` of line_tell.lua. Afterwards `n_receivers` is
negative if the message could not be published.
]]
redis.call('del', KEYS[1])
if channel == '' then
    return 1
end
local n_receivers = redis.pcall(publish or 'publish', channel, message)
if type(n_receivers) == 'table' then
    n_receivers = -3 -- the user may not publish
end
--+ line_tell.lua
