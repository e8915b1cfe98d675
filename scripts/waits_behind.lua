--[[
Reports which holds are in the way of an owner that waits for a lock, and for which locks the owners
of these holds wait themselves. Readers that have died are among them; nobody has published a wait
for these.

KEYS[1]  the lock
ARGV[1]  the id of a caller that asks for beats: see waits_read.lua; or ""
ARGV[2]  "hash", "write": only the writer of a read/write lock, or "token": of a plain lock
ARGV[3]  how many to name at most
ARGV[4]  the caller: its client id, or what its tokens begin with. It knows its own waits

Returns  for each hold { its field or token }, with what waits_read.lua returns behind that; without
         those of 64 bytes or more, which are no owner's
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
local pairs = redis.call('hgetall', KEYS[1])
local most = tonumber(ARGV[3])
local holds = {}
for i = 1, #pairs, 2 do
    local field = pairs[i]
    local counts = ARGV[2] == 'hash' or field:find(':write$')
    if counts and field ~= 'mode' and #field < 64 and #holds < most then
        holds[#holds + 1] = describe(field, field:sub(1, 36), field:match('^(%d+)', 38) or '')
    end
end
return holds
