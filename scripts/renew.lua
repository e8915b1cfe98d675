--[[
Renews the lease of a hold, and never shortens it. It does not touch the hold count, which the owner
may be changing over another connection.

KEYS[1]  the lock: a hash of field -> hold count
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  field of the hold, "<client id>:<number>"

Returns  1 if the hold now has at least that lease,
         0 if it is gone, -1 if it is gone and another owner holds the lock
]]
--+ renew_hash.lua
--+ renew_one.lua
