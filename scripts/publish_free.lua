--[[
Part of the scripts that free a lock: publishes that, if the user may. Needs `channel`; `message`; and
`publish`, the command if it is another one. Defines `n_receivers`, negative if the message could not
be published.
]]
local n_receivers = redis.pcall(publish or 'publish', channel, message)
if type(n_receivers) == 'table' then
    n_receivers = -3 -- the user may not publish
end
