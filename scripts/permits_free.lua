--[[
Part of the scripts of a semaphore that may have freed permits: publishes how many are free now, and tells the
line. Needs `free` and `now` of permits_open.lua, nil if the semaphore is gone; `channel`; `publish`; and
`result`, to which it adds the number of receivers of the message: -2 if the message could not be published.
]]
if free and free > 0 then
    local message = string.format('%.0f', free)
    --+ publish_free.lua
    --+ line_inbox.lua
    if exists == 1 then
        --+ permits_serve.lua
    end
    if result > 0 then
        result = result + n_receivers
    end
end
