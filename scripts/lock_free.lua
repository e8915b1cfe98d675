--[[
Part of scripts that have freed a lock with one key: publishes that, and tells the first client in
line. Needs `channel`, "" if the lock has none, which ends the script with 1; `message` and `publish`
of publish_free.lua, which defines `n_receivers`; and `me` of line_tell.lua.
]]
if channel == '' then
    return 1
end
--+ publish_free.lua
--+ line_tell.lua
