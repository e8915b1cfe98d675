--[[
Frees the lock when no level is left, and tells who waits; before that, only looks whether the hold
is still there. What is not the caller's is left alone.

A user without the right to publish still frees the lock: the rest of this script must not depend
on the announcement. Without RELOCK_ANNOUNCE_PLAIN there is no channel, and nobody is told.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock, "" when it has none
ARGV[4]  message that says "free"

Returns  1 when done, plus how many heard that it is free;
         0 when the hold is gone, -1 when it is gone and another owner holds the lock,
         -2 when freed without being announced
]]
local token = redis.call('get', KEYS[1])
if token ~= ARGV[1] then
    return token and -1 or 0
end

if ARGV[2] ~= '0' then
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
