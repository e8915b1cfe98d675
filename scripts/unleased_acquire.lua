--[[
Takes permits from an unleased semaphore, if it has so many.

KEYS[1]  the semaphore: the number of permits available
ARGV[1]  number of permits

Returns  1; 0 if there were too few. Not how many are left: Lua would round a large number
]]
local value = redis.call('get', KEYS[1])
--+ number_value.lua
if not value or tonumber(value) < tonumber(ARGV[1]) then
    return 0
end
redis.call('decrby', KEYS[1], ARGV[1])
return 1
