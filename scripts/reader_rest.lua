--[[
Part of the scripts of a read-write lock: how long a reader keeps it. Each level of a reader has a key
with a lease of its own; a reader without any is dead. Needs `tag`.
]]
--+ most_levels.lua
-- The longest lease of the levels; 0 if the reader is dead.
local function rest_of(field, n_levels)
    local longest = 0
    for level = 1, math.min(n_levels, most_levels) do
        local key = tag .. ':' .. field .. ':rwlock_timeout:' .. level
        longest = math.max(longest, redis.call('pttl', key))
    end
    return longest
end
