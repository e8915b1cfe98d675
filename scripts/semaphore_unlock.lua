--[[
Gives the permits of a hold back, publishes how many are free, and tells the first client in line if it
can be served.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  the permits of the hold: see permits_ids.lua
ARGV[3]  channel of the semaphore
ARGV[5]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH
         The other arguments are those of other kinds.

Returns  1 if done, plus the number of receivers of the message; 0 if a permit was gone, -2 if done but the
         message could not be published
]]
local field, publish = ARGV[1], ARGV[5]
--+ permits_open.lua
--+ permits_ids.lua
local n = redis.call('zrem', timeouts, unpack(ids))
if n > 0 and free then
    free = redis.call('incrby', KEYS[1], n)
end
local result = n == #ids and 1 or 0
local channel = ARGV[3]
--+ permits_free.lua
return result
