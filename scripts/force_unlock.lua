--[[
Frees the lock if it still has the hold that the caller saw, and publishes that. A newer hold stays,
so a late repeat removes no other hold. Spin locks have no channel and publish nothing.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  field of the hold to remove
ARGV[2]  channel of the lock, "" if it has none
ARGV[3]  message that means "free"
ARGV[4]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH; elsewhere absent, or ""

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end

redis.call('del', KEYS[1])
local channel, message, publish = ARGV[2], ARGV[3], ARGV[4] ~= '' and ARGV[4]
local me = ''
--+ lock_free.lua
return n_receivers < 0 and 2 or 1
