--[[
Frees the lock while the hold that the caller saw is still there, and tells who is first in its
queue. A newer hold is left alone, so a repeat that runs late removes nobody's.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold to be removed

Returns  1 when freed, 2 when freed without being announced, 0 when that hold is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end

-- Before the lock is freed: a user without the right to read the queue frees nothing.
local head = redis.call('lindex', 'redisson_lock_queue:' .. tag, 0)
redis.call('del', KEYS[1])
if head then
    local told = redis.pcall('publish', 'redisson_lock__channel:' .. tag .. ':' .. head, '0')
    if type(told) == 'table' and told.err then
        return 2
    end
end
return 1
