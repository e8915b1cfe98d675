--[[
As semaphore_renew.lua, for holds of many semaphores.

KEYS[i]          a semaphore: its number of free permits
ARGV[i]          the permits of its hold: see permits_ids.lua
ARGV[#KEYS + i]  their lease, ms; -1: only looks. If all have the same, it is there once

Returns  for each hold what semaphore_renew.lua returns, nil if its command failed;
         instead 1 if all holds now have at least that lease
]]
--+ permits_renew.lua
--+ renew_each.lua is_there = false
