--[[
Part of the scripts of a fair lock: finds the first living waiter in the queue and tells it that the
lock is free, or for how long it is held. Needs `tag`, `queue`, `deadlines`, `now`, the `owner` that
calls, its `patience`, and the command with which to `publish`.

The deadline of a waiter that listened to its channel when it last asked has a fraction. If it does
not listen any more, its process has died or is cut off: it is passed over, and keeps its place for
the patience of the caller. Once it is told that the lock is free, a waiter that listens keeps its
place for no longer, either. The caller knows the waiters of its own client to be alive.

Redisson's waiters are recognised by their numbers: relock's have at least ten digits. None of them
retries by itself, so a message is all that wakes them.
]]
local function is_ours(waiter)
    return not waiter:find('%D', -10)
end

-- False without a deadline. Some of Redisson's deadlines exceed the integers of PEXPIRE.
local function rest_of(waiter)
    local deadline = redis.call('zscore', deadlines, waiter)
    return deadline and math.min(deadline - now, 1e12)
end

local function has_listened(waiter)
    return (rest_of(waiter) or 0) % 1 ~= 0 and is_ours(waiter)
end

-- Returns the head, and whether others were dropped before it.
local function drop_dead_heads()
    local head = redis.call('lindex', queue, 0)
    local dropped = false
    while head and head ~= owner and (rest_of(head) or 0) <= 0 do
        redis.call('zrem', deadlines, head)
        redis.call('lpop', queue)
        head = redis.call('lindex', queue, 0)
        dropped = true
    end
    return head, dropped
end

-- `remaining` is that of PTTL. Returns the waiter, or the caller if it comes first, or false; and the
-- number of receivers of the message, or its error.
local function tell_first(remaining)
    local waiter = drop_dead_heads()
    local place = 0
    while waiter and waiter ~= owner do
        local rest = rest_of(waiter) or 0
        local listened = has_listened(waiter)
        if rest > 0 and not listened and remaining >= rest then
            return waiter, 0 -- it asks before the lease ends
        end
        if rest > 0 then
            local told = redis.pcall(publish, 'redisson_lock__channel:' .. tag .. ':' .. waiter,
                listened and remaining ~= -2 and 'held ' .. remaining or '0')
            if listened and rest > patience and (remaining == -2 or told == 0) then
                redis.call('zadd', deadlines, now + patience + 0.5, waiter)
            end
            if told ~= 0 or not listened or waiter:sub(1, 36) == owner:sub(1, 36) then
                return waiter, told
            end
        end
        place = place + 1
        waiter = redis.call('lindex', queue, place)
    end
    return waiter, 0
end
