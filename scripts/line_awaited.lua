--[[
Part of lock.lua, for a caller that was granted a hold that it may keep after its last release: tells
it if other clients wait in the line, for they do not ask again. In a half moved slot some may: their
line may be at the other node. Needs line_name.lua.
]]
if (tonumber(ARGV[2]:sub(-9, -9)) or 0) >= 5 then
    local line = 'relock_waiters:' .. name
    local exists = publish and redis.pcall('exists', line, line .. ':never')
        or redis.pcall('exists', line)
    --+ line_moving.lua
    if exists == 1 or is_moving then
        return 'awaited'
    end
end
