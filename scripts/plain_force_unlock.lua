--[[
Frees the lock if it still has the hold that the caller saw, and publishes that. A newer hold stays,
so a late repeat removes no other hold. Without RELOCK_ANNOUNCE_PLAIN there is no channel, and
nothing is published there. Other libraries' waiters are told, too.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold to remove
ARGV[2]  channel of the lock, "" if it has none
ARGV[3]  message that means "free"
ARGV[4]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH; elsewhere absent, or ""

Returns  1 if freed, 2 if freed but the message could not be published, 0 if that hold is gone
]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end

redis.call('del', KEYS[1])
--+ like_guess.lua
local channel, message, publish = ARGV[2], ARGV[3], ARGV[4] ~= '' and ARGV[4]
local me = ''
--+ lock_free.lua
return n_receivers < 0 and 2 or 1
