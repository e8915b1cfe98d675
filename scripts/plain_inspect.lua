--[[
Says who holds the lock and for how long, all of one moment. Levels are not known here: a hold is 1.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token that the caller takes for its own; may be empty

Returns  token of the holder ("" when free), 1 when it is held, number of holders,
         rest of the lease in ms (-1 none, -2 free), 1 when the caller holds it
]]
local token = redis.call('get', KEYS[1])
local held = token and 1 or 0

return {
    token or '',
    held,
    held,
    redis.call('pttl', KEYS[1]),
    ARGV[1] ~= '' and token == ARGV[1] and 1 or 0,
}
