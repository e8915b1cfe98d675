--[[
Part of the scripts of a read-write lock that readers may acquire now: tells all readers in line to
acquire it. They leave the line by that. Needs `line`, and `tell` of line_inbox.lua.
]]
local entries = redis.pcall('lrange', line, '0', '-1') -- a user without the right to it has no line
for _, entry in ipairs(entries.err and {} or entries) do
    if entry:sub(37) == ':read' then
        tell(entry, 'now')
        redis.call('lrem', line, '1', entry)
    end
end
