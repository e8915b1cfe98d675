--[[
Part of the scripts that report the holder of a read-write lock: defines `rw_holder`, which returns a
holder of one side or, if that side is free, a holder of the other side. A reader without any level key
is dead and holds nothing. Needs `tag`.
]]
--+ reader_rest.lua
local other_side = { read = 'write', write = 'read' }

-- `own_field`: of the caller's own hold; may be empty. Returns as rw_inspect.lua.
local function rw_holder(lock, own_field, wanted)
    local sides = { read = { '', 0, 0 }, write = { '', 0, 0 } }
    local remaining, own = -2, 0
    local lease = redis.call('pttl', lock)
    local fields = redis.call('hgetall', lock)
    for i = 1, #fields, 2 do
        local count = tonumber(fields[i + 1]) or 0
        local writer = fields[i]:match('^(.*):write$')
        local rest = writer and lease or rest_of(fields[i], count)
        if writer or rest > 0 then
            local side = sides[writer and 'write' or 'read']
            side[1], side[2], side[3] = writer or fields[i], count, side[3] + 1
            remaining = math.max(remaining, rest)
            own = fields[i] == own_field and count or own
        end
    end

    -- No hold outlives the key, which lasts for ever without a lease.
    if sides.write[3] > 0 or (lease >= 0 and remaining > lease) then
        remaining = lease
    end
    local found = sides[wanted][3] > 0 and wanted or other_side[wanted]
    local holder = sides[found]
    return {
        holder[1]:sub(1, 1024),
        holder[2],
        holder[3],
        remaining,
        own,
        holder[3] > 0 and found ~= wanted and 1 or 0,
    }
end
