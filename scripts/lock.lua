--[[
Acquires the lock, or sets the hold count of the owner that already holds it. Only a first level
creates the field: if the field of a nested level is gone, its hold was lost. Never shortens the
lease.

The caller passes the resulting hold count, so repeating the call is harmless.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>"
ARGV[3]  hold count after this call
ARGV[5]  to ARGV[7]: see line_ask.lua

Returns  nil if the caller holds the lock, or "awaited": see line_awaited.lua; else the remaining
         lease of the holder in ms: -1 if it has none, -2 if the lock is free and the hold to nest
         in is gone
]]
--+ line_open.lua
local left = ttl or redis.call('pttl', KEYS[1])
local found = left == -2 and 0 or redis.pcall('hexists', KEYS[1], ARGV[2])
--+ other_type.lua
if is_other and ARGV[3] ~= '1' then
    return left
end
local is_new = found == 0 or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0)
if is_new and not is_open then
    if ARGV[3] ~= '1' then
        return left
    end
    if left ~= -2 then
        --+ recall.lua
    end
    --+ line_ask.lua
    if left ~= -2 then
        return left
    end
end

redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
--+ lock_lease.lua
if is_new and not is_open then
    --+ line_awaited.lua
end
return nil
