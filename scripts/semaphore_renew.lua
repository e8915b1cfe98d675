--[[
Renews the permits of a hold, and never shortens their lease.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  lease, ms; -1: only looks
ARGV[2]  the permits of the hold: see permits_ids.lua

Returns  1 if all these permits now have at least that lease, 0 if one of them is gone
]]
--+ permits_renew.lua
--+ renew_one.lua
