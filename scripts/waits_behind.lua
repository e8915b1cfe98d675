--[[
Reports which holds are in the way of an owner that waits for a lock. Readers that have died are
among them; nobody has published a wait for these.

KEYS[1]  the lock
ARGV[1]  "hash", "write": only the writer of a read/write lock, or "token": of a plain lock
ARGV[2]  how many to name at most

Returns  their fields, or the token; without those of 64 bytes or more, which are no owner's
]]
if ARGV[1] == 'token' then
    local token = redis.call('get', KEYS[1])
    return { token and #token < 64 and token or nil }
end
local pairs = redis.call('hgetall', KEYS[1])
local most = tonumber(ARGV[2])
local fields = {}
for i = 1, #pairs, 2 do
    local counts = ARGV[1] == 'hash' or pairs[i]:find(':write$')
    if counts and pairs[i] ~= 'mode' and #pairs[i] < 64 and #fields < most then
        fields[#fields + 1] = pairs[i]
    end
end
return fields
