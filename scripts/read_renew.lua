--[[
Renews the lease of a read hold and of all its levels, and never shortens it. It does not renew other
readers. It does not touch the hold count, which the owner may be changing over another connection.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  field of the hold, "<client id>:<number>"

Returns  1 if the hold now has at least that lease,
         0 if it is gone, or has expired beside other holders, -1 if another owner holds the lock
]]
--+ renew_reader.lua
--+ renew_one.lua
