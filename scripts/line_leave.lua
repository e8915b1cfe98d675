--[[
Takes a client out of the line of a lock. If the client was told to acquire the lock, which is still
free, the next one is told.

KEYS[1]  the lock
ARGV[1]  entry of the client in the line
ARGV[2]  in a cluster: see line_name.lua

While the slot is half moved, the client stays in the line, and all clients in it are told to ask: it
may have been the turn of the one that leaves.

Returns  1
]]
local leaver, publish = ARGV[1], ARGV[2]
--+ line_keys.lua
if is_moving then
    redis.pcall('publish', 'relock_client:{moving}', KEYS[1])
end
if exists ~= 1 then
    return 1
end
--+ line_inbox.lua
local before = redis.call('hmget', turn, 'told', 'first', 'listener', 'need')
local is_told = before[1] and before[1] ~= leaver -- another client
redis.call('lrem', line, '1', leaver)
if before[1] == leaver then
    redis.call('hdel', turn, 'told')
end
if before[4] then -- of a semaphore
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local free = tonumber(redis.call('get', KEYS[1])) or 0
    --+ permits_serve.lua
    if redis.call('exists', line) == 0 then
        redis.call('del', turn)
    end
    return 1
end
if before[3] == leaver then
    redis.call('hdel', turn, 'listener')
end
if not is_told and redis.call('exists', KEYS[1]) == 0 then
    local me, n_receivers = '', 0
    --+ line_tell.lua
else
    local me, told, first = leaver, is_told, before[2]
    local entry = redis.call('lindex', line, told and '1' or '0')
    --+ line_first.lua
end
if redis.call('exists', line) == 0 then
    redis.call('del', turn)
end
return 1
