--[[
Sets the hold count of the writer to what is left; at 0 gives its hold up and tells who waits. The
lock is then free, or that of the readers whom the writer let in: itself, going on as a reader.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>:write"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock
ARGV[4]  message that says "no writer"

Returns  1 when done, plus how many heard that there is no writer;
         0 when the hold is gone, -1 when it is gone and another owner holds the lock,
         -2 when given up without being announced
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -redis.call('exists', KEYS[1])
end

if ARGV[2] ~= '0' then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

local longest, fields = 0, redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
    for level = 1, tonumber(fields[i + 1]) or 0 do
        local key = tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. level
        longest = math.max(longest, redis.call('pttl', key))
    end
end
if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    redis.call('hdel', KEYS[1], ARGV[1])
    redis.call('hset', KEYS[1], 'mode', 'read')
else
    redis.call('del', KEYS[1])
end

local told = redis.pcall('publish', ARGV[3], ARGV[4])
if type(told) == 'table' and told.err then
    return -2
end
return 1 + told
