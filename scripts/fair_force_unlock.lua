--[[
Frees the lock if it still has the hold that the caller saw, and wakes the first living waiter in
the queue. A newer hold stays, so a late repeat removes no other hold.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold to remove

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end

-- Read the queue before freeing the lock: a user without the right to read it then frees nothing.
-- Skip dead waiters: they would keep the message from those behind them. They stay in the queue
-- until another waiter retries.
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
