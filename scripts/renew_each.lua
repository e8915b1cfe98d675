--[[
Part of the scripts that renew many locks. Each command costs the server more than what it does, so mostly
two renew a hold: `is_there` (an expression of the includer) finds it, and PEXPIREAT makes its lease longer,
which Redis need not rewrite for its replicas. Everything else is left to `renew`.

An error concerns its lock alone: it ends one renew_rest(), and the next one goes on behind that lock.
]]
local try, keys, args, n, at, results = redis.pcall, KEYS, ARGV, #KEYS, 0, {}
local lease = args[n + 1]
local time = #args == n + 1 and lease ~= '-1' and redis.REDIS_VERSION_NUM and try('time')
local until_ms = time and time[2] and ('%.0f'):format(time[1] * 1000 + math.floor(time[2] / 1000) + lease)

local function renew_rest()
    for i = at + 1, n do
        local key, field = keys[i], args[i]
        at = i
        local renewed = until_ms and is_there and try('pexpireat', key, until_ms, 'gt')
        if renewed ~= 1 then
            if type(renewed) == 'table' then -- it is refused, for example for lack of the right
                until_ms = nil
            end
            local result = renew(key, args[n + i] or lease, field)
            if result ~= 1 then
                results[i] = result
            end
        end
    end
end

while not pcall(renew_rest) do
    results[at] = false
end
if not next(results) then
    return 1
end
for i = 1, n do
    if results[i] == nil then
        results[i] = 1
    end
end
return results
