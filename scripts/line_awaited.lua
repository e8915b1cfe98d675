--[[
Part of lock.lua, for a caller that was granted a hold that it may keep after its last release: tells
it if other clients wait in the line, for they do not ask again.
]]
if ARGV[2]:find(':%d+[5-9]%d%d%d%d%d%d%d%d$') then
    local name = KEYS[1]:find('{', 1, true) and ':' .. KEYS[1] or '{' .. KEYS[1] .. '}'
    if redis.pcall('exists', 'relock_waiters:' .. name) == 1 then
        return 'awaited'
    end
end
