--[[
Part of the scripts of a read-write lock that readers may acquire now: tells all readers in line to
acquire it. They leave the line by that. Needs `line`.
]]
local entries = redis.pcall('lrange', line, 0, -1) -- a user without the right to it has no line
for _, entry in ipairs(entries.err and {} or entries) do
    if entry:sub(37) == ':read' then
        redis.pcall('publish', 'relock_client:{' .. entry:sub(1, 36) .. '}', 'now:read ' .. KEYS[1])
        redis.call('lrem', line, 1, entry)
    end
end
