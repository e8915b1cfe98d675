--[[
As plain_unlock.lua, for a lock that is shared with another library: tells the waiters of that library
as a holder of its own would.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold
ARGV[2]  hold count after this call
ARGV[3]  how the waiters are told: see like_tell.lua
ARGV[4]  place
ARGV[5]  message
ARGV[6]  what the key has before the name
ARGV[7]  name of the lock in the other library

Returns  1 if done; 0 if the hold is gone, -1 if it is gone and another owner holds the lock,
         -2 if freed but the waiters could not be told
]]
--+ plain_free.lua
local command, place, message, before, name = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--+ like_tell.lua
return is_told and 1 or -2
