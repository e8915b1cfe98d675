--[[
Part of the scripts that renew readers: defines `renew`, which renews the lease of the read hold `field` of
the lock `key` and of all its levels, as the script read_renew.lua describes. `lease` is a text.
]]
local function renew(key, lease, field)
    local tag = key:find('{', 1, true) and key or '{' .. key .. '}'
    local level_key = tag .. ':' .. field .. ':rwlock_timeout:'
    local found = redis.pcall('hget', key, field)
    local held = tonumber(found)
    if not held then
        --+ other_type.lua
        held = not is_other and tonumber(redis.call('hget', key, field))
        if not held then
            return -redis.call('exists', key)
        end
    end

    --+ most_levels.lua
    local is_alive = false
    for level = 1, math.min(held, most_levels) do
        local left = redis.call('pttl', level_key .. level)
        if left > 0 and left < tonumber(lease) then
            redis.call('pexpire', level_key .. level, lease)
        end
        is_alive = is_alive or left > 0
    end
    if not is_alive then
        return 0
    end
    --+ renew_lease.lua
    return 1
end
