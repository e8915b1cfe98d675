--[[
Part of the scripts that renew strings: defines `renew`, which renews the lease of the hold with the token
`field` of the lock `key`, as the script plain_renew.lua describes. `lease` is a text.
]]
local function renew(key, lease, field)
    local found = redis.pcall('get', key)
    if found ~= field then
        --+ other_type.lua
        return (is_other or redis.call('get', key)) and -1 or 0
    end
    --+ renew_lease.lua
    return 1
end
