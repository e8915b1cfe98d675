--[[
Gives permits back to an unleased semaphore, and publishes how many are available. One that does not exist
has had 0.

A user without the right to publish can still release.

KEYS[1]  the semaphore: the number of permits available
ARGV[1]  and the next two: see number_publish.lua
ARGV[4]  number of permits

Returns  { permits available, number of receivers or -1 if the message could not be published }
]]
local value = redis.call('incrby', KEYS[1], ARGV[4])
--+ number_publish.lua
return { value, n_receivers }
