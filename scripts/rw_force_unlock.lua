--[[
Frees one side of the lock if the holder that the caller saw still has it, and publishes that. A
newer hold stays, so a late repeat removes no other hold. If the reader to remove is the writer
itself, only its read hold is removed: the lock stays the writer's, and nothing is published.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  holder to remove, as rw_inspect.lua returns it
ARGV[2]  channel of the lock
ARGV[3]  message that means "free"
ARGV[4]  side, "read" or "write"
ARGV[5]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local field = ARGV[4] == 'write' and ARGV[1] .. ':write' or ARGV[1]
local mode = redis.call('hget', KEYS[1], 'mode')
if (ARGV[4] == 'write' and mode ~= 'write') or redis.call('hexists', KEYS[1], field) == 0 then
    return 0
end

local is_freed = mode == ARGV[4]
local fields = redis.call('hgetall', KEYS[1])
-- First, for in a half moved slot the server refuses a key that is not there.
--+ most_levels.lua
for i = 1, #fields, 2 do
    for level = 1, math.min(tonumber(fields[i + 1]) or 0, most_levels) do
        redis.call('del', tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. level)
    end
end
if is_freed then
    redis.call('del', KEYS[1])
else
    redis.call('hdel', KEYS[1], field)
end

if not is_freed then
    return 1
end
local channel, message, publish = ARGV[2], ARGV[3], ARGV[5]
local me = ''
--+ publish_free.lua
--+ line_tell.lua
return n_receivers < 0 and 2 or 1
