--[[
As plain_renew.lua, for holds of many locks.

KEYS[i]          a lock: a string, the token of the hold
ARGV[i]          token of its hold
ARGV[#KEYS + i]  its lease, ms; -1: only looks. If all have the same, it is there once

Returns  for each lock what plain_renew.lua returns, nil if its command failed;
         instead 1 if all holds now have at least that lease
]]
--+ renew_string.lua
--+ renew_each.lua is_there = try('get', key) == field
