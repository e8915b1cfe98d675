--[[
Reports a holder of one side of the lock or, if that side is free, a holder of the other side; with
its levels, and the time until the lock is free, all at one moment. A reader without any level key
is dead and holds nothing.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the caller's own hold; may be empty
ARGV[2]  side, "read" or "write"

Returns  a holder, its field without ":write" ("" if the lock is free; at most 1024 bytes), its hold
         count, number of holders of its side, remaining lease of the lock in ms, the longest of
         both sides (-1 none, -2 free), hold count of the caller, 1 if the holder is on the other
         side, else 0
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
--+ rw_holder.lua
return rw_holder(KEYS[1], ARGV[1], ARGV[2])
