--[[
Part of the scripts that tell the line of waiting clients: its keys, `line` and `turn`.
]]
--+ line_name.lua
local line = 'relock_waiters:' .. name
local turn = 'relock_waiters:turn:' .. name
