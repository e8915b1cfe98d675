--[[
Renews the lease of a hold, and never shortens it. A renewal always writes, because WAIT counts
replicas that have the last write of its connection. It does not touch the hold count, which the
owner may be changing over another connection. The last command on the lock is a read, so that
client tracking reports the next change.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  field of the hold, "<client id>:<number>"

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
local found = redis.pcall('hexists', KEYS[1], ARGV[2])
--+ other_type.lua
if is_other or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0) then
    return -redis.call('exists', KEYS[1])
end
local lease = tonumber(ARGV[1])
if lease > 0 then
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(lease, left))
    redis.call('exists', KEYS[1])
end
return 1
