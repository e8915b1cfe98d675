--[[
Takes the lock, or sets the hold count of the owner that holds it. Only a first level creates the
field: a deeper one whose field is gone has lost its hold. Never shortens the lease.

The caller says what its hold count is afterwards, so a repeated call does no harm.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call

Returns  nil when the caller holds the lock, else the rest of the holder's lease in ms:
         -1 when it has none, -2 when nobody holds the lock and the hold to be deepened is gone
]]
if redis.call('hexists', KEYS[1], ARGV[2]) == 0
    and (ARGV[3] ~= '1' or redis.call('exists', KEYS[1]) == 1) then
    return redis.call('pttl', KEYS[1])
end

local left = redis.call('pttl', KEYS[1])
local is_new = redis.call('hset', KEYS[1], ARGV[2], ARGV[3]) == 1
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
return nil
