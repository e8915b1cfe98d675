--[[
Sets the hold count of the writer to the remaining levels; at 0 it removes the hold and publishes
that. Then the lock is free, unless the writer also holds the read side: it continues as a reader.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>:write"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock
ARGV[4]  message that means "no writer"
ARGV[5]  entry in the line of the caller's client, if that waits for the lock again; else absent,
         or "" before ARGV[6]
ARGV[6]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH

Returns  1 if done, plus the number of receivers of the message;
         0 if the hold is gone, -1 if it is gone and another owner holds the lock,
         -2 if removed but the message could not be published.
         With ARGV[5], if freed: { that number, place in the line }: see line_tell.lua
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local found = redis.pcall('hexists', KEYS[1], ARGV[1])
--+ other_type.lua
if is_other or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0) then
    return -redis.call('exists', KEYS[1])
end

if ARGV[2] ~= '0' then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

--+ readers_rest.lua
if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    redis.call('hdel', KEYS[1], ARGV[1])
    redis.call('hset', KEYS[1], 'mode', 'read')
else
    redis.call('del', KEYS[1])
end

local channel, message, publish = ARGV[3], ARGV[4], ARGV[6]
--+ publish_free.lua
if longest > 0 and exists == 1 then
    --+ line_inbox.lua
    --+ line_readers.lua
    if #entries > 0 and redis.call('exists', line) == 0 then
        redis.call('del', turn)
    end
elseif longest == 0 then
    local me = ARGV[5] or ''
    --+ line_tell.lua
end
return 1 + n_receivers
