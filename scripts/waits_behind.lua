--[[
Reports which holds are in the way of an owner that waits for a lock, and for which locks the owners
of these holds wait themselves. Readers that have died are among them; nobody has published a wait
for these.

KEYS[1]  the lock, or the semaphore
ARGV[1]  the id of a caller that asks for beats: see waits_read.lua; or ""
ARGV[2]  "hash", "write": only the writer of a read/write lock, "token": of a plain lock, or "permits": of a
         semaphore
ARGV[3]  how many to name at most
ARGV[4]  the caller: its client id, or what its tokens or permits begin with. It knows its own waits

Returns  for each hold { its field or token }, with what waits_read.lua returns behind that; without
         those of 64 bytes or more, which are no owner's. Of a semaphore, first the number of all
         permits, 0 if it is not set; then for each hold { "<what the ids of its permits begin with, in
         hex>:<how many have not expired>" } with the same behind it
]]
--+ waits_read.lua
local function describe(field, client, number)
    if client == ARGV[4] then
        return { field }
    end
    return { field, read_wait('relock_waits:{' .. client .. '}', number) }
end

if ARGV[2] == 'token' then
    local token = redis.call('get', KEYS[1])
    return { token and #token < 64 and describe(token, token:sub(1, 24), token) or nil }
end
local most = tonumber(ARGV[3])
local holds = {}
if ARGV[2] == 'permits' then
    local timeouts = (KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}') .. ':timeout'
    local time = redis.call('time')
    local now = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    local counts = {}
    for _, id in ipairs(redis.call('zrangebyscore', timeouts, now, '+inf', 'limit', '0', '4096')) do
        local hold = #id == 16 and id:sub(1, 14)
        if hold and not counts[hold] and #holds < most then
            holds[#holds + 1] = hold
        end
        counts[hold] = (counts[hold] or 0) + 1
    end
    for i, hold in ipairs(holds) do
        local field = hold:gsub('.', function(byte)
            return string.format('%02x', byte:byte())
        end)
        holds[i] = describe(field, field:sub(1, 12), field)
        holds[i][1] = field .. ':' .. counts[hold]
    end
    local free = redis.call('get', KEYS[1])
    table.insert(holds, 1, free and free + redis.call('zcard', timeouts) or 0)
    return holds
end
local pairs = redis.call('hgetall', KEYS[1])
for i = 1, #pairs, 2 do
    local field = pairs[i]
    local counts = ARGV[2] == 'hash' or field:find(':write$')
    if counts and field ~= 'mode' and #field < 64 and #holds < most then
        holds[#holds + 1] = describe(field, field:sub(1, 36), field:match('^(%d+)', 38) or '')
    end
end
return holds
