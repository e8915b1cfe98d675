--[[
Part of the scripts that renew semaphores: defines `renew`, which renews the permits of the hold `field` of the
semaphore `key`, as the script semaphore_renew.lua describes. `lease` is a text.
]]
local function renew(key, lease, field)
    local tag = key:find('{', 1, true) and key or '{' .. key .. '}'
    local timeouts = tag .. ':timeout'
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    --+ permits_ids.lua
    local scores = {}
    for i, id in ipairs(ids) do
        scores[i] = tonumber(redis.call('zscore', timeouts, id))
        if not scores[i] or scores[i] <= now then
            return 0
        end
    end
    if lease ~= '-1' then
        lease = tonumber(lease)
        -- When memory is full, Redis allows ZADD only after a write that it allows. No permit has such a short id.
        redis.call('zrem', timeouts, field:sub(1, 14))
        --+ permits_out.lua
    end
    return 1
end
