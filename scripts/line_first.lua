--[[
Part of other scripts: line_next.lua, and writes that its `entry` knows that it is first. Needs what
that needs, and `turn`.
]]
--+ line_next.lua
if entry and entry ~= first then
    redis.call('hset', turn, 'first', entry)
elseif not entry and not told then
    redis.call('del', turn)
end
