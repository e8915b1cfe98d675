--[[
Renews the lease of a hold, if that makes it longer. It does not touch the hold count, which the
owner may be changing over another connection. The last command on the lock is a read, so that
client tracking reports the next change.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  field of the hold, "<client id>:<number>"

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return -redis.call('exists', KEYS[1])
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
    redis.call('exists', KEYS[1])
end
return 1
