--[[
Frees the lock while the hold that the caller saw is still there, and tells who waits. A newer hold
is left alone, so a repeat that runs late removes nobody's. Without RELOCK_ANNOUNCE_PLAIN there is no
channel, and nobody is told.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold to be removed
ARGV[2]  channel of the lock, "" when it has none
ARGV[3]  message that says "free"

Returns  1 when freed, 2 when freed without being announced, 0 when that hold is gone
]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end

redis.call('del', KEYS[1])
if ARGV[2] == '' then
    return 1
end
local told = redis.pcall('publish', ARGV[2], ARGV[3])
if type(told) == 'table' and told.err then
    return 2
end
return 1
