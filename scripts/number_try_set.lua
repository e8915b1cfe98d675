--[[
Sets a latch or an unleased semaphore that does not exist, and publishes that.

A user without the right to publish can still set it.

KEYS[1]  the number
ARGV[1]  and the next two: see number_publish.lua
ARGV[4]  its value

Returns  0 if the key exists; else { 1, number of receivers or -1 if the message could not be published }
]]
local value = ARGV[4]
if not redis.call('set', KEYS[1], value, 'NX') then
    return 0
end
--+ number_publish.lua
return { 1, n_receivers }
