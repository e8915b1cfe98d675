--[[
Frees the lock while the hold that the caller saw is still there, and wakes the first waiter in its
queue that lives. A newer hold is left alone, so a repeat that runs late removes nobody's.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold to be removed

Returns  1 when freed, 2 when freed without being announced, 0 when that hold is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end

-- Before the lock is freed: a user without the right to read the queue frees nothing. A dead waiter
-- would keep the message from those behind it; it stays in the queue until one of them asks.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local place = 0
local first = redis.call('lindex', queue, place)
while first and tonumber(redis.call('zscore', deadlines, first) or 0) <= now do
    place = place + 1
    first = redis.call('lindex', queue, place)
end
redis.call('del', KEYS[1])
if first then
    local told = redis.pcall('publish', 'redisson_lock__channel:' .. tag .. ':' .. first, '0')
    if type(told) == 'table' and told.err then
        return 2
    end
end
return 1
