--[[
Sets the hold count of the owner to what is left; at 0 frees the lock and tells who waits.

A user without the right to publish still frees the lock: the rest of this script must not depend
on the announcement. Locks of the kind that spins have no channel, and nobody is told.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock, "" when it has none
ARGV[4]  message that says "free"

Returns  1 when done, plus how many heard that it is free;
         0 when the hold is gone, -1 when it is gone and another owner holds the lock,
         -2 when freed without being announced
]]
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -redis.call('exists', KEYS[1])
end

if ARGV[2] ~= '0' then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

redis.call('del', KEYS[1])
if ARGV[3] == '' then
    return 1
end
local told = redis.pcall('publish', ARGV[3], ARGV[4])
if type(told) == 'table' and told.err then
    return -2
end
return 1 + told
