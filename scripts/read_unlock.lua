--[[
Sets the hold count of a reader to what is left; at 0 gives its hold up. Who was the last living
reader frees the lock and tells who waits. Readers that died are dropped on the way. Under a write
hold nothing is said about the lock's lease, which is the writer's.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock
ARGV[4]  message that says "free"

Returns  1 when done, plus how many heard that it is free;
         0 when the hold is gone, or dead among others, -1 when another owner holds the lock,
         -2 when freed without being announced
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[1] .. ':rwlock_timeout:'
local count = tonumber(ARGV[2])
local held = tonumber(redis.call('hget', KEYS[1], ARGV[1]))
if not held then
    return -redis.call('exists', KEYS[1])
end

-- The longest lease of the levels; 0 when the reader is dead.
local function rest_of(field, n_levels)
    local rest = 0
    for level = 1, n_levels do
        local key = tag .. ':' .. field .. ':rwlock_timeout:' .. level
        rest = math.max(rest, redis.call('pttl', key))
    end
    return rest
end

local rest = rest_of(ARGV[1], held)
for level = count + 1, held do
    redis.call('del', level_key .. level)
end
if count > 0 and rest > 0 then
    -- What the dropped levels had left stays with the hold.
    if redis.call('pttl', level_key .. count) < rest then
        redis.call('set', level_key .. count, '1', 'px', rest)
    end
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

local told = 0
redis.call('hdel', KEYS[1], ARGV[1])
if redis.call('hget', KEYS[1], 'mode') == 'read' then
    local longest, fields = 0, redis.call('hgetall', KEYS[1])
    for i = 1, #fields, 2 do
        local left = rest_of(fields[i], tonumber(fields[i + 1]) or 0)
        if left == 0 and fields[i] ~= 'mode' then
            redis.call('hdel', KEYS[1], fields[i])
        end
        longest = math.max(longest, left)
    end
    if longest > 0 then
        redis.call('pexpire', KEYS[1], longest)
    else
        redis.call('del', KEYS[1])
        told = redis.pcall('publish', ARGV[3], ARGV[4])
    end
end

if rest == 0 then
    return 0
end
if type(told) == 'table' and told.err then
    return -2
end
return 1 + told
