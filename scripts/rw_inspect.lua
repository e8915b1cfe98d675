--[[
Says who holds one side of the lock, how deep and for how long, all of one moment. A reader none of
whose levels has a key any more is dead and holds nothing.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field that the caller takes for its own; may be empty
ARGV[2]  side, "read" or "write"

Returns  a holder, its field without ":write" ("" when that side is free), its hold count, number
         of holders, rest of the longest lease in ms (-1 none, -2 free), hold count of the caller
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local holder, depth, holders, rest, own = '', 0, 0, -2, 0

local function rest_of(field, n_levels)
    local longest = 0
    for level = 1, n_levels do
        local key = tag .. ':' .. field .. ':rwlock_timeout:' .. level
        longest = math.max(longest, redis.call('pttl', key))
    end
    return longest > 0 and longest or -2
end

local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
    local count, left = tonumber(fields[i + 1]) or 0, -2
    local writer = fields[i]:match('^(.*):write$')
    if ARGV[2] == 'write' and writer then
        left = redis.call('pttl', KEYS[1])
    elseif ARGV[2] == 'read' then
        left = rest_of(fields[i], count)
    end
    if left ~= -2 then
        holder, depth, holders = writer or fields[i], count, holders + 1
        rest = math.max(rest, left)
        own = fields[i] == ARGV[1] and count or own
    end
end
return { holder, depth, holders, rest, own }
