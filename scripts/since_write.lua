--[[
Records since when the holds of a client are held, for operators: its next part, or its end.

KEYS[1]  the record: a hash of the number of a hold -> since when it is held, ms; "client" -> ARGV[3]
ARGV[1]  how long to keep it without another part, ms; 0: it has ended
ARGV[2]  1 if this is the first part: what is there is older
ARGV[3]  "<client id> <client name>"
ARGV[4]  "<number> <ms for which it is held> " of further holds

Returns  1, or 0 if earlier parts are gone
]]
local was_there = redis.call('exists', KEYS[1])
if ARGV[1] == '0' or ARGV[2] == '1' then
    redis.call('unlink', KEYS[1]) -- a hash of many holds would take long to free
end
if ARGV[1] == '0' then
    return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('hset', KEYS[1], 'client', ARGV[3])
for number, held in ARGV[4]:gmatch('(%S+) (%d+)') do
    redis.call('hset', KEYS[1], number, string.format('%.0f', now - held))
end
redis.call('pexpire', KEYS[1], ARGV[1])
return ARGV[2] == '1' and 1 or was_there
