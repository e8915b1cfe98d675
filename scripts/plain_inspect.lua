--[[
Reports the holder of the lock and its remaining lease, all at one moment. Redis does not know the
levels of a plain lock, so a hold counts as 1.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the caller's own hold; may be empty

Returns  token of the holder ("" if free; at most 1024 bytes), 1 if it is held, number of holders,
         remaining lease in ms (-1 none, -2 free), 1 if the caller holds it
]]
local token = redis.call('get', KEYS[1])
local held = token and 1 or 0

return {
    (token or ''):sub(1, 1024),
    held,
    held,
    redis.call('pttl', KEYS[1]),
    ARGV[1] ~= '' and token == ARGV[1] and 1 or 0,
}
