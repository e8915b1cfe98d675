--[[
Takes the lock, or lets the hold of the owner that has it last for another level: how many there are
its process counts. Only a first level creates the key: a deeper one whose token is gone has lost
its hold. Never shortens the lease.

A repeated call finds its token and does no harm.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  lease, ms
ARGV[2]  token of the hold
ARGV[3]  hold count after this call

Returns  nil when the caller holds the lock, else the rest of the holder's lease in ms:
         -1 when it has none, -2 when nobody holds the lock and the hold to be deepened is gone
]]
if redis.call('get', KEYS[1]) == ARGV[2] then
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
        redis.call('pexpire', KEYS[1], ARGV[1])
    end
    return nil
end

if ARGV[3] == '1' and redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[1]) then
    return nil
end
return redis.call('pttl', KEYS[1])
