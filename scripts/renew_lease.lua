--[[
Part of the scripts that renew: gives `key` the lease `lease`, ms, or a longer one that it has; -1: changes
nothing. It always writes, because WAIT counts replicas that have the last write of its connection. Redis
knows GT, which saves a command, since the version that tells scripts its number.
]]
if lease ~= '-1'
    and not (redis.REDIS_VERSION_NUM and redis.call('pexpire', key, lease, 'gt') == 1) then
    local left = redis.call('pttl', key)
    redis.call('pexpire', key, left > tonumber(lease) and left or lease)
end
