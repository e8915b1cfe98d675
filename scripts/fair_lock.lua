--[[
Acquires the lock if it is free and no other living owner is before the caller in its queue. Like
lock.lua, it sets the hold count of an owner that already holds the lock. A refused waiter joins the
queue under the field of its future hold. It must retry well within its patience: otherwise it counts
as dead, and is dropped when it is first. Never shortens a lease.

A waiter that listens to its channel is told when it is its turn. So it may retry less often, the
more waiters are before it, and its deadline is that much later. fair_tell.lua says how the scripts
find out that it has died.

When Redisson grants the lock to a waiter, it subtracts five minutes from the deadlines of all
others. So for each Redisson waiter before the caller, the caller's deadline is that much later.
Then the deadline shows that the caller is alive, whichever waiter leaves first.

The caller passes the resulting hold count, so repeating the call is harmless.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call
ARGV[4]  patience, ms
ARGV[5]  0 if the caller does not wait, 1 if it does, 2 if it also listens to its channel
ARGV[6]  in a cluster: SPUBLISH if channels are sharded, else PUBLISH

Returns  nil if the caller holds the lock, else how many ms it may sleep: the remaining lease of the
         holder, -1 if it has none, -2 if the lock is free and the hold to nest in is gone. A caller
         that waits gets { ms, n }: it retries after ms, or after n intervals of rechecking, if that
         is sooner. For each waiter before it, the ms are 100 more than the lease. If the lock is
         free and another waiter is first, they are a second for each waiter before the caller, but
         not much more than that waiter has left to come; or 100 ms for each, if that waiter is
         Redisson's, which tells nobody when it acquires the lock
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag
local owner = ARGV[2]
local patience = tonumber(ARGV[4])
local publish = ARGV[6] or 'publish'
local waits = ARGV[5] ~= '0'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = redis.call('pttl', KEYS[1])
local found = redis.pcall('hexists', KEYS[1], owner)
--+ other_type.lua
if (is_other or found == 0) and ARGV[3] ~= '1' then
    return left
end
local is_new = found == 0 or (found ~= 1 and redis.call('hexists', KEYS[1], owner) == 0)

--+ fair_tell.lua

local first, dropped = drop_dead_heads()
local place = first and waits and redis.call('lpos', queue, owner)
-- A new waiter will soon ask again, as one that listens. By then, the first may have come.
if left == -2 and first and first ~= owner and (place or not waits) then
    if dropped or has_listened(first) then
        first = tell_first(left)
        dropped = false
    end
end

if not is_new or (left == -2 and (not first or first == owner)) then
    redis.call('zrem', deadlines, owner)
    redis.call('lrem', queue, 0, owner)
    redis.call('hset', KEYS[1], owner, ARGV[3])
    --+ lock_lease.lua
    if is_new or dropped then
        tell_first(redis.call('pttl', KEYS[1])) -- it may know only the lease of an earlier holder
    end
    return nil
end

if dropped then
    tell_first(left)
end
if not waits then
    return left == -2 and 100 or left
end

place = place or redis.call('rpush', queue, owner) - 1
local n_foreign = 0
for _, waiter in ipairs(place > 0 and redis.call('lrange', queue, 0, place - 1) or {}) do
    n_foreign = n_foreign + (is_ours(waiter) and 0 or 1)
end
-- Redisson tells nobody that it has granted the lock, and finds no dead waiters but by deadlines.
local n = ARGV[5] == '2' and n_foreign == 0 and math.min(place + 1, 20) or 1
local deadline = now + n * patience + n_foreign * 300000
redis.call('zadd', deadlines, ARGV[5] == '2' and deadline + 0.5 or deadline, owner)

-- The head has no waiter before it, so its deadline needs no time for others any more. Only its
-- client knows how often it retries, so give it at least a minute.
local most = math.max(patience, 60000)
local head = redis.call('lindex', queue, 0)
local rest = rest_of(head)
if is_ours(head) and rest % 1 == 0 and rest > most then
    redis.call('zadd', deadlines, now + most, head)
end

-- Unused keys expire. Redisson's would stay for ever.
local furthest = math.floor(rest_of(redis.call('zrevrange', deadlines, 0, 0)[1]))
redis.call('pexpire', queue, furthest + 600000)
redis.call('pexpire', deadlines, furthest + 600000)

if left >= 0 then
    return { left + 100 * place, n }
elseif left == -1 then
    return { left, n }
elseif not is_ours(first) then
    return { 100 * place, n }
end
return { math.min(1000 * place, rest_of(first) + 100 * (place - 1)), n }
