--[[
Renews the lease of a hold, and never shortens it. Also used to extend a hold, because a plain lock
has no hold count in Redis to correct.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  token of the hold

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
--+ renew_string.lua
--+ renew_one.lua
