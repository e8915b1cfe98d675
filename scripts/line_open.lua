--[[
Part of the scripts that acquire a lock. Defines `turn`, the key of the line that exists while clients
wait, and `is_open`: whether this is a first level, the lock is free, and nobody waits for it. That is
mostly so, and then one EXISTS is all that the caller has to ask. To a user who may not use the line
no lock is open. To a caller outside of the line no lock is open, because its user may not have the
right to ask for the line: see ARGV[5] of line_ask.lua.
]]
local publish = ARGV[7]
--+ line_name.lua
local turn = 'relock_waiters:turn:' .. name
local is_open = ARGV[3] == '1' and ARGV[5] ~= '' and redis.pcall('exists', KEYS[1], turn) == 0
