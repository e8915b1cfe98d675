--[[
Counts a latch down. At zero it has no key. That it got there is published.

A user without the right to publish can still count down.

KEYS[1]  the latch: a number; absent if it is open
ARGV[1]  and the next two: see number_publish.lua

Returns  the count, negative if the latch was open; if it has opened now, { 0, number of receivers or -1 if
         the message could not be published }
]]
local value = redis.call('get', KEYS[1])
--+ number_value.lua
if not value then
    return -1
end
-- One write: a user who lacks a right for a second one would have counted down, and get an error.
if tonumber(value) > 1 then
    return redis.call('decrby', KEYS[1], '1')
end
redis.call('del', KEYS[1])
if value ~= '1' then
    return -1
end
--+ number_publish.lua
return { 0, n_receivers }
