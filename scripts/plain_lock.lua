--[[
Acquires the lock, or lengthens the lease of the owner that already holds it, for a nested level;
the owner's process counts the levels. Only a first level creates the key: if the token of a nested
level is gone, its hold was lost. Never shortens the lease.

A repeated call finds its token, so it is harmless.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  lease, ms
ARGV[2]  token of the hold
ARGV[3]  hold count after this call
ARGV[5]  to ARGV[7]: see line_ask.lua

Returns  nil if the caller holds the lock, else the remaining lease of the holder in ms:
         -1 if it has none, -2 if the lock is free and the hold to nest in is gone
]]
local found = redis.pcall('get', KEYS[1])
--+ other_type.lua
if is_other and ARGV[3] ~= '1' then
    return redis.call('pttl', KEYS[1])
end
local token = type(found) == 'table' and redis.call('get', KEYS[1]) or found
local left = token and redis.call('pttl', KEYS[1]) or -2
if token == ARGV[2] then
    -- Always a write: WAIT counts replicas that have the last write of its connection.
    redis.call('pexpire', KEYS[1], math.max(tonumber(ARGV[1]), left))
    return nil
end

if ARGV[3] == '1' then
    local publish = ARGV[7]
    --+ line_name.lua
    local turn = 'relock_waiters:turn:' .. name
    local state
    local exists = ARGV[5] ~= '' and (
        publish and redis.pcall('exists', turn, turn .. ':never')
        or redis.pcall('exists', turn))
    --+ line_ask.lua
end
if ARGV[3] ~= '1' or left ~= -2 then
    return left
end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[1])
return nil
