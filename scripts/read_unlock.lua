--[[
Sets the hold count of a reader to the remaining levels; at 0 it removes the hold. The last living
reader frees the lock and publishes that. The script also drops dead readers. Under a write hold it
does not touch the lease of the lock, which is the writer's.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock
ARGV[4]  message that means "free"
ARGV[5]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH

Returns  1 if done, plus the number of receivers of the message;
         0 if it is gone, or has expired beside other holders, -1 if another owner holds the lock,
         -2 if freed but the message could not be published
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local level_key = tag .. ':' .. ARGV[1] .. ':rwlock_timeout:'
local count = tonumber(ARGV[2])
local found = redis.pcall('hget', KEYS[1], ARGV[1])
--+ other_type.lua
local held = tonumber(found)
    or (not is_other and tonumber(redis.call('hget', KEYS[1], ARGV[1])))
if not held then
    return -redis.call('exists', KEYS[1])
end

--+ reader_rest.lua

local function remove_levels()
    for level = count + 1, held do
        redis.call('del', level_key .. level)
    end
end

local rest = rest_of(ARGV[1], held)
if count > 0 and rest > 0 then
    -- The hold keeps the remaining lease of the deleted levels.
    if redis.call('pttl', level_key .. count) < rest then
        redis.call('set', level_key .. count, '1', 'px', rest)
    end
    remove_levels()
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    return 1
end

-- In a half moved slot the server may refuse to read the levels of another reader. So nothing is written
-- before that: else the script, when repeated, would find the hold gone, and not free the lock.
local is_read = redis.call('hget', KEYS[1], 'mode') == 'read'
local longest, gone = 0, { ARGV[1] }
local fields = is_read and redis.call('hgetall', KEYS[1]) or {}
for i = 1, #fields, 2 do
    if fields[i] ~= ARGV[1] and fields[i] ~= 'mode' then
        local left = rest_of(fields[i], tonumber(fields[i + 1]) or 0)
        if left == 0 then
            table.insert(gone, fields[i])
        end
        longest = math.max(longest, left)
    end
end

remove_levels()
for _, field in ipairs(gone) do
    redis.call('hdel', KEYS[1], field)
end
if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
elseif is_read then
    redis.call('del', KEYS[1])
    local channel, message, publish = ARGV[3], ARGV[4], ARGV[5]
    local me = ''
    --+ lock_free.lua
    return rest > 0 and 1 + n_receivers or 0
end
return rest > 0 and 1 or 0
