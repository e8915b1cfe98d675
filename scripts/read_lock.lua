--[[
Takes the lock for reading, beside other readers or under the writer's own write hold, or sets the
hold count of the reader that holds it. Each level has a key with a lease of its own, and a reader
none of whose keys is left is dead: it cannot go deeper. A hash without "mode" is a lock of another
kind, and held by somebody else. Never shortens a lease.

The caller says what its hold count is afterwards, so a repeated call does no harm.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call
ARGV[4]  field of the write hold that the caller has, "" when it has none

Returns  nil when the caller holds the lock, else the rest of the holder's lease in ms:
         -1 when it has none, -2 when nobody holds the lock and the hold to be deepened is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[2] .. ':rwlock_timeout:'
local lease, count = tonumber(ARGV[1]), tonumber(ARGV[3])
local mode = redis.call('hget', KEYS[1], 'mode')
local held = tonumber(redis.call('hget', KEYS[1], ARGV[2])) or 0
local rest = 0
for level = 1, held do
    rest = math.max(rest, redis.call('pttl', level_key .. level))
end

if count > 1 and rest == 0 then
    return held > 0 and -2 or redis.call('pttl', KEYS[1])
end
if count == 1 and mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[4]) == 0
    and redis.call('exists', KEYS[1]) == 1 then
    return redis.call('pttl', KEYS[1])
end

-- Levels that an unanswered unlock left behind go, and what they had left stays with the hold.
if held > count then
    lease = math.max(lease, rest)
end
if redis.call('pttl', level_key .. count) < lease then
    redis.call('set', level_key .. count, '1', 'px', lease)
end
for level = count + 1, held do
    redis.call('del', level_key .. level)
end

redis.call('hset', KEYS[1], 'mode', mode or 'read', ARGV[2], ARGV[3])
if redis.call('pttl', KEYS[1]) < lease then
    local set = redis.pcall('pexpire', KEYS[1], lease)
    if type(set) == 'table' and set.err then
        -- A user without the right to it must not leave a lock behind that never expires.
        if not mode then
            redis.call('del', KEYS[1], level_key .. count)
        elseif held == 0 then
            redis.call('del', level_key .. count)
            redis.call('hdel', KEYS[1], ARGV[2])
        end
        return set
    end
end
return nil
