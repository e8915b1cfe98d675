--[[
Part of the scripts that look at all levels of other readers: at how many of each. In a hash of
another program, a count may be any number.
]]
local most_levels = 1000
