--[[
Acquires the write side, or sets the hold count of the writer that already holds it. Only a first
level creates the field: if the field of a nested level is gone, its hold was lost. Dead readers,
which have no level key left, do not block a writer. A hash without "mode" is a held lock of another
kind. Never shortens the lease.

The caller passes the resulting hold count, so repeating the call is harmless.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms
ARGV[2]  field of the hold, "<client id>:<number>:write"
ARGV[3]  hold count after this call

Returns  nil if the caller holds the lock, else the remaining lease of the holder in ms, or the
         longest of the living readers:
         -1 if it has none, -2 if the lock is free and the hold to nest in is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
--+ line_open.lua
local left = ttl or redis.call('pttl', KEYS[1])
local found = left == -2 and 0 or redis.pcall('hexists', KEYS[1], ARGV[2])
--+ other_type.lua
if is_other and ARGV[3] ~= '1' then
    return left
end
local is_new = found == 0 or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0)
local mode = left ~= -2 and redis.call('hget', KEYS[1], 'mode')
if is_new and ARGV[3] ~= '1' then
    return left
end

if mode == 'read' then
    --+ readers_rest.lua
    left = longest > 0 and longest or -2
end
if is_new and not is_open then
    --+ line_ask.lua
    if left ~= -2 then
        return left
    end
    if mode == 'read' then
        redis.call('del', KEYS[1]) -- the readers are dead
    end
end

redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], ARGV[3])
left = redis.call('pttl', KEYS[1])
--+ lock_lease.lua
return nil
