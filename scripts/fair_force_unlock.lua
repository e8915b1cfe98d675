--[[
Frees the lock if it still has the hold that the caller saw, and tells the first living waiter in
the queue. A newer hold stays, so a late repeat removes no other hold.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold to remove
ARGV[2]  patience, ms: see fair_tell.lua
ARGV[3]  in a cluster: SPUBLISH if channels are sharded, else PUBLISH

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local queue = 'redisson_lock_queue:' .. tag
local deadlines = 'redisson_lock_timeout:' .. tag
local owner = '' -- the caller is no waiter, and the client of the holder may be dead
local patience = tonumber(ARGV[2])
local publish = ARGV[3] ~= '' and ARGV[3] or 'publish'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end

--+ fair_tell.lua

-- Before freeing the lock: a user without the rights to the queue then frees nothing.
drop_dead_heads()
redis.call('del', KEYS[1])
local _, told = tell_first(-2)
if type(told) == 'table' and told.err then
    return 2
end
return 1
