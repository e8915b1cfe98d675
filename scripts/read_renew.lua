--[[
Renews the lease of a read hold and of all its levels, and never shortens it. A renewal always
writes, because WAIT counts replicas that have the last write of its connection. It does not renew
other readers. It does not touch the hold count, which the owner may be changing over another
connection. The last command on the lock is a read, so that client tracking reports the next change.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  field of the hold, "<client id>:<number>"

Returns  1 if the hold now has at least that lease,
         0 if it is gone, or has expired beside other holders, -1 if another owner holds the lock
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[2] .. ':rwlock_timeout:'
local lease = tonumber(ARGV[1])
local found = redis.pcall('hget', KEYS[1], ARGV[2])
--+ other_type.lua
local held = tonumber(found)
    or (not is_other and tonumber(redis.call('hget', KEYS[1], ARGV[2])))
if not held then
    return -redis.call('exists', KEYS[1])
end

local is_alive = false
for level = 1, held do
    local left = redis.call('pttl', level_key .. level)
    if left > 0 and left < lease then
        redis.call('pexpire', level_key .. level, lease)
    end
    is_alive = is_alive or left > 0
end
if not is_alive then
    return 0
end

if lease > 0 then
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(lease, left))
    redis.call('exists', KEYS[1])
end
return 1
