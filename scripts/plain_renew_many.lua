--[[
As plain_renew.lua, for holds of many locks.

KEYS[i]       a lock: a string, the token of the hold
ARGV[2i - 1]  its lease, ms; -1: only looks
ARGV[2i]      token of its hold

Returns  for each lock what plain_renew.lua returns; nil if its command failed
]]
--+ renew_string.lua
--+ renew_each.lua
