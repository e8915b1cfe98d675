--[[
Part of the scripts of a semaphore. Defines `timeouts`, the key of the permits that are out, id -> time of
the server at which it expires, ms; `now`, that time; and `free`, the number of permits that are not out,
nil if it was never set. Gives expired permits back first.

In a half moved slot, one key may be here and the other one not: then EXISTS fails, before the script writes.
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local timeouts = tag .. ':timeout'
if publish then
    redis.call('exists', KEYS[1], timeouts)
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.call('get', KEYS[1])
--+ number_value.lua
local free = value and tonumber(value) or nil
local expired = free and redis.call('zrangebyscore', timeouts, '-inf', string.format('%.0f', now),
    'limit', '0', '1000') or {}
if expired[1] then
    -- ZREM first: Redis allows it when memory is full, and then all that follows.
    redis.call('zrem', timeouts, unpack(expired))
    free = redis.call('incrby', KEYS[1], #expired)
end
