--[[
Takes all permits from an unleased semaphore; negative ones, too.

KEYS[1]  the semaphore: the number of permits available

Returns  the permits, as text; nil if it does not exist
]]
local value = redis.call('get', KEYS[1])
--+ number_value.lua
if value then
    redis.call('set', KEYS[1], '0')
end
return value
