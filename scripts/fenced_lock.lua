--[[
Acquires the lock and draws a fencing token for it. Like lock.lua, it sets the hold count of an
owner that already holds the lock. Tokens only grow: their counter outlives the lock. If another
client gave the counter a lease (as Redisson's MultiLock does), this script removes that lease.

The caller passes the resulting hold count, so repeating the call is harmless and draws no new
token.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call

Returns  { token of the hold } if the caller holds the lock. The token is 0 if this is a repeat or a
         nested level and the counter has been deleted.
         Else the remaining lease of the holder in ms:
         -1 if it has none, -2 if the lock is free and the hold to nest in is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local counter = 'redisson_lock_token:' .. tag
--+ line_open.lua
local left = ttl or redis.call('pttl', KEYS[1])
local found = left == -2 and 0 or redis.pcall('hexists', KEYS[1], ARGV[2])
--+ other_type.lua
if is_other and ARGV[3] ~= '1' then
    return left
end
local is_new = found == 0 or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0)

redis.call('persist', counter)
if is_new and not is_open then
    if ARGV[3] ~= '1' then
        return left
    end
    --+ line_ask.lua
    if left ~= -2 then
        return left
    end
end

-- Draw the token before acquiring: an unused token is harmless, a lock without a token is not.
local token = is_new and redis.call('incr', counter)
    or tonumber(redis.call('get', counter)) or 0
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
--+ lock_lease.lua
return { token }
