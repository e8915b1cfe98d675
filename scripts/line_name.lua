--[[
Part of the scripts that use the line of waiting clients: `name` ends the names of its keys.
]]
local name = KEYS[1]:find('{', 1, true) and ':' .. KEYS[1] or '{' .. KEYS[1] .. '}'
