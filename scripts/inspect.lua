--[[
Reports the holder of the lock, its levels and its remaining lease, all at one moment.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the caller's own hold; may be empty

Returns  field of a holder ("" if free; at most 1024 bytes), its hold count, number of holders,
         remaining lease in ms (-1 none, -2 free), hold count of the caller
]]
local fields = redis.call('hgetall', KEYS[1])

return {
    (fields[1] or ''):sub(1, 1024),
    tonumber(fields[2]) or 0,
    #fields / 2,
    redis.call('pttl', KEYS[1]),
    tonumber(redis.call('hget', KEYS[1], ARGV[1])) or 0,
}
