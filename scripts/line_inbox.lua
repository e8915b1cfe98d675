--[[
Part of other scripts: `tell` publishes to the inbox of a client in the line, and returns the number
of receivers, or an error. In a cluster, a client has an inbox for each lock, in the slot of the lock,
so that it is subscribed at the node that runs the script. Needs `publish` of line_name.lua.
]]
local function tell(entry, verb)
    local id, side = entry, ''
    if #entry > 36 then
        id, side = entry:sub(1, 36), entry:sub(37)
    end
    local inbox = 'relock_client:{' .. id .. '}'
    if publish then
        inbox = 'relock_client:{' .. (KEYS[1]:match('{(.-)}') or KEYS[1]) .. '}:' .. id
    end
    return redis.pcall(publish or 'publish', inbox, verb .. side .. ' ' .. KEYS[1])
end
