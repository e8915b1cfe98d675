--[[
Deletes a latch, whatever its count, and publishes that. Data of another program stay.

A user without the right to publish can still delete it.

KEYS[1]  the latch: a number; absent if it is open
ARGV[1]  and the next two: see number_publish.lua

Returns  0 if it does not exist; else { 1, number of receivers or -1 if the message could not be published }
]]
local value = redis.call('get', KEYS[1])
--+ number_value.lua
if not value then
    return 0
end
redis.call('del', KEYS[1])
--+ number_publish.lua
return { 1, n_receivers }
