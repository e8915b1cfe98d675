--[[
Part of scripts that have acquired a lock: lengthens its lease to ARGV[1] ms if the lease `left` is
shorter. Needs `is_new`: whether this call has made the key.
]]
if left == -2 or left < tonumber(ARGV[1]) then
    local set = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if set ~= 1 and type(set) == 'table' and set.err then
        -- A user without the right to PEXPIRE must not leave a lock that never expires.
        if is_new then
            redis.call('del', KEYS[1])
        end
        return set
    end
end
