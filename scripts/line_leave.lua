--[[
Takes a client out of the line of a lock. If the client was told to acquire the lock, which is still
free, the next one is told.

KEYS[1]  the lock
ARGV[1]  entry of the client in the line

Returns  1
]]
local me = ARGV[1]
--+ line_name.lua
local line = 'relock_waiters:' .. name
local turn = 'relock_waiters:turn:' .. name
local told, first, listener = unpack(redis.call('hmget', turn, 'told', 'first', 'listener'))
redis.call('lrem', line, 1, me)
if told == me then
    redis.call('hdel', turn, 'told')
    told = false
end
if listener == me then
    redis.call('hdel', turn, 'listener')
end
if not told and redis.call('exists', KEYS[1]) == 0 then
    local me, n_receivers = '', 0
    --+ line_tell.lua
else
    local entry = redis.call('lindex', line, told and 1 or 0)
    --+ line_first.lua
end
if redis.call('exists', line) == 0 then
    redis.call('del', turn)
end
return 1
