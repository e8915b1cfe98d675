--[[
Part of the scripts that tell the line of waiting clients: its keys, `line` and `turn`; and `exists`:
1 if `line` exists. Elsewhere than in a cluster, that is not known yet. Needs `publish` of line_name.lua.
]]
--+ line_name.lua
local line = 'relock_waiters:' .. name
local turn = 'relock_waiters:turn:' .. name
local exists = not publish and 1 or redis.pcall('exists', line, line .. ':never')
--+ line_moving.lua
