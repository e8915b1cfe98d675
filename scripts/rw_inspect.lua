--[[
Reports a holder of one side of the lock or, if that side is free, a holder of the other side; with
its levels, and the time until the lock is free, all at one moment. A reader without any level key
is dead and holds nothing.

KEYS[1]  the lock: a hash of "mode" -> "read" or "write", and field -> hold count
ARGV[1]  field of the caller's own hold; may be empty
ARGV[2]  side, "read" or "write"

Returns  a holder, its field without ":write" ("" if the lock is free; at most 1024 bytes), its hold
         count, number of holders of its side, remaining lease of the lock in ms, the longest of
         both sides (-1 none, -2 free), hold count of the caller, 1 if the holder is on the other
         side, else 0
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local other = { read = 'write', write = 'read' }
local sides = { read = { '', 0, 0 }, write = { '', 0, 0 } }
local remaining, own = -2, 0

--+ reader_rest.lua

local lease = redis.call('pttl', KEYS[1])
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
    local count = tonumber(fields[i + 1]) or 0
    local writer = fields[i]:match('^(.*):write$')
    local rest = writer and lease or rest_of(fields[i], count)
    if writer or rest > 0 then
        local side = sides[writer and 'write' or 'read']
        side[1], side[2], side[3] = writer or fields[i], count, side[3] + 1
        remaining = math.max(remaining, rest)
        own = fields[i] == ARGV[1] and count or own
    end
end

-- No hold outlives the key, which lasts for ever without a lease.
if sides.write[3] > 0 or (lease >= 0 and remaining > lease) then
    remaining = lease
end
local found = sides[ARGV[2]][3] > 0 and ARGV[2] or other[ARGV[2]]
local holder = sides[found]
return {
    holder[1]:sub(1, 1024),
    holder[2],
    holder[3],
    remaining,
    own,
    holder[3] > 0 and found ~= ARGV[2] and 1 or 0,
}
