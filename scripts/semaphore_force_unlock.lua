--[[
Gives the permits of one hold back, if they are still out, and publishes how many are free.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  the id of a permit of that hold, in hex
ARGV[2]  channel of the semaphore
ARGV[4]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH; elsewhere absent. The third
         argument is that of other kinds

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
local publish = ARGV[4]
--+ permits_open.lua
local function byte_of(digits)
    return string.char(tonumber(digits, 16))
end
local hold = ARGV[1]:sub(1, 28):gsub('%x%x', byte_of)
local n = 0
for _, id in ipairs(redis.call('zrange', timeouts, '0', '-1')) do
    if id:sub(1, 14) == hold then
        n = n + redis.call('zrem', timeouts, id)
    end
end
if n == 0 and not expired[1] then
    return 0
end
if n > 0 and free then
    free = redis.call('incrby', KEYS[1], n)
end
local channel, result = ARGV[2], n > 0 and 1 or 0
--+ permits_free.lua
return result < 0 and 2 or math.min(n, 1)
