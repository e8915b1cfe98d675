--[[
As read_renew.lua, for holds of many locks.

KEYS[i]          a lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[i]          field of its hold, "<client id>:<number>"
ARGV[#KEYS + i]  its lease, ms; -1: only looks. If all have the same, it is there once

Returns  for each lock what read_renew.lua returns, nil if its command failed;
         instead 1 if all holds now have at least that lease
]]
--+ renew_reader.lua
--+ renew_each.lua is_there = false
