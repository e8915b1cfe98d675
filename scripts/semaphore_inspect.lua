--[[
Reports the hold of a semaphore whose permits expire first, and how many permits are out, all at one moment.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  the permits of a hold of the caller: see permits_ids.lua; may be empty
ARGV[2]  anything: only the permits of that hold are the caller's, not all of its owner

Returns  the id of a permit of that hold (128 bytes at most), in hex ("" if none is out), how many that
         hold has, the number of permits that are out, the remaining lease of that permit in ms (-1 none,
         -2 none is out), the permits of the caller
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local timeouts = tag .. ':timeout'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('get', KEYS[1]) -- another program's data are an error

-- An owner is the client, and the higher 34 of the 64 bits that follow it.
local function caller_of(id)
    local high, low = 0, 0
    if ARGV[2] then
        return id:sub(1, 14)
    end
    for i = 7, 10 do
        high, low = high * 256 + id:byte(i), low * 256 + id:byte(i + 4)
    end
    return id:sub(1, 6) .. (high * 4 + math.floor(low / 1073741824))
end

local out = redis.call('zrangebyscore', timeouts, string.format('(%.0f', now), '+inf', 'withscores')
local own = ARGV[1] ~= '' and caller_of(ARGV[1])
local n_same, n_own = 0, 0
for i = 1, #out, 2 do
    local is_same = i == 1 -- an acquire of relock's has ids of 16 bytes that differ in the last two
        or (#out[i] == 16 and #out[1] == 16 and out[i]:sub(1, 14) == out[1]:sub(1, 14))
    n_same = n_same + (is_same and 1 or 0)
    n_own = n_own + (own and #out[i] == 16 and caller_of(out[i]) == own and 1 or 0)
end
local left = out[2] and tonumber(out[2]) - now or -2
local id = (out[1] or ''):gsub('.', function(byte)
    return string.format('%02x', byte:byte())
end)
return { id:sub(1, 256), n_same, #out / 2, left > 315360000000 and -1 or left, n_own }
