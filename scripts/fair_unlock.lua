--[[
Sets the hold count of the owner to what is left; at 0 gives up its hold, or its place in the queue,
and wakes the first waiter if the lock is free by that, or if that waiter has become first and the
lock can be free before it asks again by itself. So it also settles a wait that is over.

A user without the right to publish still frees the lock: the rest of this script must not depend
on the announcement.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call

Returns  1 when done, plus how many heard that the hold is freed;
         0 when hold and place are gone, -1 when they are gone and another owner holds the lock,
         -2 when the hold is freed without being announced
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag
local is_held = redis.call('hexists', KEYS[1], ARGV[1]) == 1

if is_held and ARGV[2] ~= '0' then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

local place = ARGV[2] == '0' and redis.call('lpos', queue, ARGV[1])
if not is_held and not place then
    return -redis.call('exists', KEYS[1])
end

if place then
    redis.call('zrem', deadlines, ARGV[1])
    redis.call('lrem', queue, 0, ARGV[1])
end
if is_held then
    redis.call('del', KEYS[1])
end

local told = 0
local head = redis.call('lindex', queue, 0)
if head and (is_held or place == 0) then
    -- Not to a dead one: who is behind it would not hear of this.
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    while head and tonumber(redis.call('zscore', deadlines, head) or 0) <= now do
        redis.call('zrem', deadlines, head)
        redis.call('lpop', queue)
        head = redis.call('lindex', queue, 0)
    end
    local left = redis.call('pttl', KEYS[1])
    if head and left < redis.call('zscore', deadlines, head) - now then
        told = redis.pcall('publish', 'redisson_lock__channel:' .. tag .. ':' .. head, '0')
    end
end
if not is_held then
    return 1
end
if type(told) == 'table' and told.err then
    return -2
end
return 1 + told
