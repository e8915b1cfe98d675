--[[
Part of the scripts that renew hashes: defines `renew`, which renews the lease of the hold `field` of the
lock `key`, as the script renew.lua describes. `lease` is a text.
]]
local function renew(key, lease, field)
    local found = redis.pcall('hexists', key, field)
    if found ~= 1 then
        --+ other_type.lua
        if is_other or redis.call('hexists', key, field) == 0 then
            return -redis.call('exists', key)
        end
    end
    --+ renew_lease.lua
    return 1
end
