--[[
Changes the permits of an unleased semaphore, perhaps to a negative number, and publishes how many are
available. One that does not exist has had 0. As with Redisson, the key does not expire afterwards.

A user without the right to publish can still add.

KEYS[1]  the semaphore: the number of permits available
ARGV[1]  and the next two: see number_publish.lua
ARGV[4]  number of permits to add, negative to take permits away

Returns  { permits available, number of receivers or -1 if the message could not be published }
]]
local value = redis.call('get', KEYS[1])
--+ number_value.lua
-- First: a user who lacks this right would have added, and get an error.
redis.call('persist', KEYS[1])
value = redis.call('incrby', KEYS[1], ARGV[4])
--+ number_publish.lua
return { value, n_receivers }
