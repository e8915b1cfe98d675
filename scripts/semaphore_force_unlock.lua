--[[
Gives the permits of one hold back, if they are still out, and publishes how many are free.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  the id of a permit of that hold, in hex. An id of 16 bytes is of a hold of relock, whose permits
         differ in the last two bytes, or is Redisson's. 128 bytes stand for all that begin so
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
local permit = ARGV[1]:gsub('%x%x', byte_of)
local same = (#permit == 16 and 14) or (#permit == 128 and 128)
local n = 0
for _, id in ipairs(redis.call('zrange', timeouts, '0', '-1')) do
    if id == permit
        or (same and (same == 128 or #id == 16) and id:sub(1, same) == permit:sub(1, same))
    then
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
