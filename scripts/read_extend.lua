--[[
Makes a read hold last at least as long as its owner asks, and sets its hold count. Like every
command of an owner, it corrects a count that an unanswered command left behind. It always writes
the lease, because WAIT counts replicas that have the last write of its connection.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count

Returns  1 if the hold now has at least that lease,
         0 if it is gone, or has expired beside other holders, -1 if another owner holds the lock
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[2] .. ':rwlock_timeout:'
local count = tonumber(ARGV[3])
local found = redis.pcall('hget', KEYS[1], ARGV[2])
--+ other_type.lua
local held = tonumber(found)
    or (not is_other and tonumber(redis.call('hget', KEYS[1], ARGV[2])))
if not held then
    return -redis.call('exists', KEYS[1])
end

--+ reader_rest.lua
local rest = rest_of(ARGV[2], held)
if rest == 0 then
    return 0
end

-- A server that is out of memory refuses writes, so make none that changes nothing.
local lease = math.max(tonumber(ARGV[1]), rest)
for level = 1, count do
    local key = level_key .. level
    if redis.call('pttl', key) < lease
        and redis.call('pexpire', key, lease) == 0 then
        redis.call('set', key, '1', 'px', lease)
    end
end
for level = count + 1, held do
    redis.call('del', level_key .. level)
end
local left = redis.call('pttl', KEYS[1])
redis.call('pexpire', KEYS[1], math.max(lease, left))
if held ~= count then
    redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
end
return 1
