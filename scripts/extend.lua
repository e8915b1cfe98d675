--[[
Makes a hold last at least as long as its owner asks, and sets its hold count. Like every command of
an owner, it corrects a count that an unanswered command left behind.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return -redis.call('exists', KEYS[1])
end

if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
-- A server that is out of memory refuses writes, so make none that changes nothing.
if redis.call('hget', KEYS[1], ARGV[2]) ~= ARGV[3] then
    redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
end
return 1
