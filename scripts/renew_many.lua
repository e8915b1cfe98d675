--[[
As renew.lua, for holds of many locks.

KEYS[i]       a lock: a hash of field -> hold count
ARGV[2i - 1]  its lease, ms; -1: only looks
ARGV[2i]      field of its hold, "<client id>:<number>"

Returns  for each lock what renew.lua returns; nil if its command failed
]]
--+ renew_hash.lua
--+ renew_each.lua
