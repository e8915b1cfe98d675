--[[
Takes the lock and draws a token for it, or sets the hold count of the owner that holds it, as
lock.lua does. Tokens only ever grow: their counter outlives the lock, and a lease that somebody
gave it (as Redisson's MultiLock does) is taken off.

The caller says what its hold count is afterwards, so a repeated call does no harm and draws none.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call

Returns  { token of the hold } when the caller holds the lock; the token is 0 when the hold is a
         repeat or a deeper level, and somebody removed the counter;
         else the rest of the holder's lease in ms:
         -1 when it has none, -2 when nobody holds the lock and the hold to be deepened is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local counter = 'redisson_lock_token:' .. tag
local is_new = redis.call('hexists', KEYS[1], ARGV[2]) == 0
local left = redis.call('pttl', KEYS[1])

redis.call('persist', counter)
if is_new and (ARGV[3] ~= '1' or redis.call('exists', KEYS[1]) == 1) then
    return left
end

-- Before the lock is taken: a token too many does no harm, a lock without one does.
local token = is_new and redis.call('incr', counter)
    or tonumber(redis.call('get', counter)) or 0
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if left < tonumber(ARGV[1]) then
    local set = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if type(set) == 'table' and set.err then
        -- A user without the right to it must not leave a lock behind that never expires.
        if is_new then
            redis.call('del', KEYS[1])
        end
        return set
    end
end
return { token }
