--[[
Sets the hold count of the owner to the remaining levels. At 0 it removes the owner's hold, or its
place in the queue, so it also cleans up after a wait that ended. It tells the first living waiter if
this freed the lock, or if that waiter has become first.

A user without the right to publish can still free the lock: nothing in this script may depend on
the message.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call
ARGV[3]  patience, ms: see fair_tell.lua
ARGV[4]  in a cluster: SPUBLISH if channels are sharded, else PUBLISH

Returns  1 if done, plus the number of receivers of the message that the lock is free;
         0 if hold and place are gone, -1 if they are gone and another owner holds the lock,
         -2 if freed but the message could not be published
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag
local owner = ARGV[1]
local patience = tonumber(ARGV[3])
local publish = ARGV[4] ~= '' and ARGV[4] or 'publish'
local found = redis.pcall('hexists', KEYS[1], owner)
--+ other_type.lua
local is_held = found == 1
    or (found ~= 0 and not is_other and redis.call('hexists', KEYS[1], owner) == 1)

if is_held and ARGV[2] ~= '0' then
    redis.call('hset', KEYS[1], owner, ARGV[2])
    return 1
end

local own_place = ARGV[2] == '0' and redis.call('lpos', queue, owner)
if not is_held and not own_place then
    return -redis.call('exists', KEYS[1])
end

if own_place then
    redis.call('zrem', deadlines, owner)
    redis.call('lrem', queue, 0, owner)
end
if is_held then
    redis.call('del', KEYS[1])
end

local n_receivers = 0
local first = redis.call('lindex', queue, 0)
if first then
    local left = is_held and -2 or redis.call('pttl', KEYS[1])
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    --+ fair_tell.lua

    -- Of a free lock, the caller may have been the one that was told: those before it may be gone.
    if is_held or own_place == 0 or (left == -2 and has_listened(first)) then
        n_receivers = select(2, tell_first(left))
    end
end
if not is_held then
    return 1
end
if type(n_receivers) == 'table' and n_receivers.err then
    return -2
end
return 1 + n_receivers
