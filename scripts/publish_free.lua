--[[
Part of the scripts that free a lock: publishes that, if the user may. Needs `channel`; `message`; and
`publish`, the command with which the scripts of a cluster publish. Defines `n_receivers`, negative
if the message could not be published; and all that line_keys.lua defines.

While the slot of the lock is half moved, a sharded message does not reach clients that have subscribed
at the other node, and the line must not be used. So then all nodes get the name of the lock on a
channel to which all clients of a cluster that wait in lines are subscribed.
]]
local n_receivers = redis.pcall(publish or 'publish', channel, message)
if n_receivers ~= 0 and type(n_receivers) == 'table' then
    n_receivers = -3 -- the user may not publish
end
--+ line_keys.lua
if is_moving then
    redis.pcall('publish', 'relock_client:{moving}', KEYS[1])
end
