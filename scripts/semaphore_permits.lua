--[[
Reads, sets or adds to the number of permits of a semaphore.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  "read"; "init": sets it unless it was set; "set": all in all, free and out
ARGV[2]  that number
ARGV[3]  channel of the semaphore
ARGV[4]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH; elsewhere absent

Returns  { permits that are free, permits that are out, 1 if this has set the number, -1 if it was never set,
         else 0 }
]]
local verb, publish = ARGV[1], ARGV[4]
--+ permits_open.lua
local n_out = redis.call('zcard', timeouts)
local before = free
if verb == 'init' and not free then
    redis.call('set', KEYS[1], ARGV[2])
    free = tonumber(ARGV[2])
elseif verb == 'set' then
    free = redis.call('incrby', KEYS[1], ARGV[2] - n_out - (free or 0))
end
local answer = { free or 0, n_out, free and 0 or -1 }
if verb == 'set' or (free and not before) then
    answer[3] = 1
end
local channel, result = ARGV[3], 0
--+ permits_free.lua
return answer
