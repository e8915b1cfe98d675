--[[
Makes a hold last at least as long as its owner asks, and sets its hold count. Like every command of
an owner, it corrects a count that an unanswered command left behind. It always writes the lease,
because WAIT counts replicas that have the last write of its connection.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
local found = redis.pcall('hexists', KEYS[1], ARGV[2])
--+ other_type.lua
if is_other or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0) then
    return -redis.call('exists', KEYS[1])
end

local left = redis.call('pttl', KEYS[1])
redis.call('pexpire', KEYS[1], math.max(tonumber(ARGV[1]), left))
-- A server that is out of memory refuses this write, so make none that changes nothing.
if redis.call('hget', KEYS[1], ARGV[2]) ~= ARGV[3] then
    redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
end
return 1
