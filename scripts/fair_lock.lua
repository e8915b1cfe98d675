--[[
Acquires the lock if it is free and no other owner is first in its queue. Like lock.lua, it sets the
hold count of an owner that already holds the lock. A refused waiter joins the queue under the field
of its future hold. It must retry well within its patience: otherwise it counts as dead, and is
dropped when it is first. Never shortens a lease.

When Redisson grants the lock to a waiter, it subtracts five minutes from the deadlines of all
others. So for each Redisson waiter before the caller, the caller's deadline is that much later.
Then the deadline shows that the caller is alive, whichever waiter leaves first. Redisson's waiters
are recognised by their numbers: relock's have at least ten digits.

A new head knows only the lease of an earlier holder. If the lock can be free before the new head
retries by itself, this script wakes it; the retry returns the current lease.

The caller passes the resulting hold count, so repeating the call is harmless.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call
ARGV[4]  patience, ms; 0 for a caller that does not wait

Returns  nil if the caller holds the lock, else how many ms it may sleep: the remaining lease of the
         holder, -1 if it has none, -2 if the lock is free and the hold to nest in is gone. If the
         lock is free but another waiter is first: 100 for each waiter before the caller, so that it
         learns the next holder and its lease. Behind a dead head, n waiters together retry
         10 * (1 + 1/2 + ... + 1/n) times a second
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag
local owner = ARGV[2]
local patience = tonumber(ARGV[4])
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = redis.call('pttl', KEYS[1])
local is_new = redis.call('hexists', KEYS[1], owner) == 0

if is_new and ARGV[3] ~= '1' then
    return left
end

-- False without a deadline. Some of Redisson's deadlines exceed the integers of PEXPIRE.
local function rest_of(waiter)
    local deadline = redis.call('zscore', deadlines, waiter)
    return deadline and math.min(deadline - now, 1e12)
end

local function is_ours(waiter)
    return #waiter:match('%d*$') >= 10
end

-- Also wakes Redisson's waiters: none of them retries by itself.
local function wake(waiter, left)
    if waiter and waiter ~= owner and left < (rest_of(waiter) or 0) then
        redis.pcall('publish', 'redisson_lock__channel:' .. tag .. ':' .. waiter, '0')
    end
end

local head = redis.call('lindex', queue, 0)
local purged = false
while head and head ~= owner and (rest_of(head) or 0) <= 0 do
    redis.call('zrem', deadlines, head)
    redis.call('lpop', queue)
    head = redis.call('lindex', queue, 0)
    purged = true
end

if not is_new or (left == -2 and (not head or head == owner)) then
    redis.call('zrem', deadlines, owner)
    redis.call('lrem', queue, 0, owner)
    redis.call('hset', KEYS[1], owner, ARGV[3])
    if left < tonumber(ARGV[1]) then
        local set = redis.pcall('pexpire', KEYS[1], ARGV[1])
        if type(set) == 'table' and set.err then
            -- A user without the right to PEXPIRE must not leave a lock that never expires.
            if is_new then
                redis.call('del', KEYS[1])
            end
            return set
        end
    end
    if is_new or purged then
        local first = redis.call('lindex', queue, 0)
        wake(first, redis.call('pttl', KEYS[1]))
    end
    return nil
end

local place = 1
if patience > 0 then
    place = redis.call('lpos', queue, owner)
    if not place then
        place = redis.call('rpush', queue, owner) - 1
    end
    local n_foreign = 0
    for _, waiter in ipairs(place > 0 and redis.call('lrange', queue, 0, place - 1) or {}) do
        n_foreign = n_foreign + (is_ours(waiter) and 0 or 1)
    end
    redis.call('zadd', deadlines, now + patience + n_foreign * 300000, owner)

    -- The head has no waiter before it, so its deadline needs no time for others any more. Only its
    -- client knows how often it retries, so give it at least a minute.
    local most = math.max(patience, 60000)
    head = head or owner
    if is_ours(head) and rest_of(head) > most then
        redis.call('zadd', deadlines, now + most, head)
    end

    -- Unused keys expire. Redisson's would stay for ever.
    local furthest = rest_of(redis.call('zrevrange', deadlines, 0, 0)[1])
    redis.call('pexpire', queue, furthest + 600000)
    redis.call('pexpire', deadlines, furthest + 600000)
end

if purged then
    wake(head, left)
end
if left ~= -2 then
    return left
end
return 100 * place
