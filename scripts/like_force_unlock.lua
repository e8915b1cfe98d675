--[[
As plain_force_unlock.lua, for a lock that is shared with another library.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold to remove
ARGV[2]  how the waiters are told: see like_tell.lua
ARGV[3]  place
ARGV[4]  message
ARGV[5]  what the key has before the name
ARGV[6]  name of the lock in the other library

Returns  1 if freed, 2 if freed but the waiters could not be told, 0 if that hold is gone
]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end

redis.call('del', KEYS[1])
local command, place, message, before, name = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--+ like_tell.lua
return is_told and 1 or 2
