--[[
Part of the scripts that use the line of waiting clients: `name` ends the names of its keys. Needs
`publish`: in a cluster the command with which scripts publish, else nil. The line of a cluster has
keys of its own, because clients of earlier versions, which have no line there, would find no client
that stands in it.
]]
local name = KEYS[1]:find('{', 1, true) and ':' .. KEYS[1] or '{' .. KEYS[1] .. '}'
if publish then
    name = name .. ':cluster'
end
