--[[
Acquires the read side, beside other readers or under the caller's own write hold, or sets the hold
count of a reader that already holds it. Each level has a key with a lease of its own. A reader
without any level key is dead: it cannot nest. A hash without "mode" is a held lock of another kind.
Never shortens a lease.

The caller passes the resulting hold count, so repeating the call is harmless.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call
ARGV[4]  field of the caller's own write hold, "" if it has none

Returns  nil if the caller holds the lock, else the remaining lease of the holder in ms:
         -1 if it has none, -2 if the lock is free and the hold to nest in is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[2] .. ':rwlock_timeout:'
local lease, count = tonumber(ARGV[1]), tonumber(ARGV[3])
--+ line_open.lua
local found = ttl ~= -2 and redis.pcall('hget', KEYS[1], 'mode')
--+ other_type.lua
if is_other and count > 1 then
    return redis.call('pttl', KEYS[1])
end
local mode = type(found) == 'table' and redis.call('hget', KEYS[1], 'mode') or found
local held = ttl ~= -2 and tonumber(redis.call('hget', KEYS[1], ARGV[2])) or 0
--+ reader_rest.lua
local rest = rest_of(ARGV[2], held)

if count > 1 and rest == 0 then
    return held > 0 and -2 or redis.call('pttl', KEYS[1])
end
if count == 1 and not is_open then
    local left = -2
    if ttl ~= -2 and mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
        left = redis.call('pttl', KEYS[1])
    end
    if held == 0 then
        --+ line_ask.lua
    end
    if left ~= -2 then
        return left
    end
end

-- Delete levels that an unanswered unlock left behind; the hold keeps their remaining lease.
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
        -- A user without the right to PEXPIRE must not leave a lock that never expires.
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
