--[[
Sets the hold count of the owner to the remaining levels; at 0 it frees the lock and publishes that.

A user without the right to publish can still free the lock: nothing in this script may depend on
the message. Spin locks have no channel and publish nothing.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold, "<client id>:<number>"
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock, "" if it has none
ARGV[4]  message that means "free"
ARGV[5]  entry in the line of the caller's client, if that waits for the lock again; else absent,
         or "" before ARGV[6]
ARGV[6]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH

Returns  1 if done, plus the number of receivers of the message;
         0 if the hold is gone, -1 if it is gone and another owner holds the lock,
         -2 if freed but the message could not be published.
         With ARGV[5], if freed: { that number, place in the line }: see line_tell.lua
]]
-- The hold is the only field of the lock, so HDEL frees it. Users of spin locks lack that right. Fields
-- that another program has added stay, and are in the way of all owners until the lease ends.
local is_last = ARGV[2] == '0'
if not is_last or ARGV[3] == '' or redis.pcall('hdel', KEYS[1], ARGV[1]) ~= 1 then
    local found = redis.pcall('hexists', KEYS[1], ARGV[1])
    --+ other_type.lua
    if is_other or (found ~= 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0) then
        return -redis.call('exists', KEYS[1])
    end
    if not is_last then
        redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
        return 1
    end
    redis.call('del', KEYS[1])
end

local channel, message, publish = ARGV[3], ARGV[4], ARGV[6]
local me = ARGV[5] or ''
--+ lock_free.lua
return 1 + n_receivers
