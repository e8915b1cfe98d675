--[[
Says who holds the lock, how deep and for how long, all of one moment.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field that the caller takes for its own; may be empty

Returns  field of a holder ("" when free), its hold count, number of holders,
         rest of the lease in ms (-1 none, -2 free), hold count of the caller
]]
local fields = redis.call('hgetall', KEYS[1])

return {
    fields[1] or '',
    tonumber(fields[2]) or 0,
    #fields / 2,
    redis.call('pttl', KEYS[1]),
    tonumber(redis.call('hget', KEYS[1], ARGV[1])) or 0,
}
