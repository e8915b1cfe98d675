--[[
Renews the lease of a hold, and never shortens it. A renewal always writes, because WAIT counts
replicas that have the last write of its connection. Also used to extend a hold, because a plain
lock has no hold count in Redis to correct. The last command is a read, so that client tracking
reports the next change.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  token of the hold

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
local found = redis.pcall('get', KEYS[1])
--+ other_type.lua
if found ~= ARGV[2] then
    return (is_other or redis.call('get', KEYS[1])) and -1 or 0
end
local lease = tonumber(ARGV[1])
if lease > 0 then
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(lease, left))
    redis.call('exists', KEYS[1])
end
return 1
