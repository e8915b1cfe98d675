--[[
Part of lock.lua, for a caller that was granted a hold that it may keep after its last release: tells
it if other clients wait in the line, for they do not ask again. Needs line_name.lua.
]]
if ARGV[2]:find(':%d+[5-9]%d%d%d%d%d%d%d%d$') then
    if redis.pcall('exists', 'relock_waiters:' .. name) == 1 then
        return 'awaited'
    end
end
