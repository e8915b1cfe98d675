--[[
Part of scripts that free a lock with one key: deletes it, publishes that, and tells the first client
in line. Needs `channel`, "" if the lock has none, which ends the script with 1; `message` and
`publish` of publish_free.lua, which defines `n_receivers`; and `me` of line_tell.lua.
]]
redis.call('del', KEYS[1])
if channel == '' then
    return 1
end
--+ publish_free.lua
--+ line_tell.lua
