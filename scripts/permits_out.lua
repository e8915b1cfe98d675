--[[
Part of the scripts of a semaphore: the permits `ids` are out for `lease` ms. Redisson's clients take
permits back by their own clocks. So the server has a tenth of the lease more, at most a second, by which their
clocks may be ahead of its own. Needs `timeouts` and `now`; `scores`, the present times of these permits.
Never shortens a lease.
]]
local till = now + lease + math.min(math.floor(lease / 10), 1000)
local entries = {}
for i, id in ipairs(ids) do
    entries[2 * i - 1] = string.format('%.0f', math.max(till, scores[i] or 0))
    entries[2 * i] = id
end
redis.call('zadd', timeouts, unpack(entries))
