--[[
Part of the scripts that renew: gives `key` the lease `lease`, ms, or a longer one that it has; -1: changes
nothing. It always writes, because WAIT counts replicas that have the last write of its connection.
]]
if lease ~= '-1' then
    local left = redis.call('pttl', key)
    redis.call('pexpire', key, left > tonumber(lease) and left or lease)
end
