--[[
Publishes for which locks the owners of a client have been waiting for long, in place of what was
published before. The client sends it again as long as they wait, and the next time only after the
answer, with a higher beat: so a beat proves that what it brings was still so when the one before it
was answered. A command that comes late, over a connection that has ended, brings an old beat and
changes nothing. A beat without an answer is sent again: new waits keep the time of its first run.

A client that has asked for beats (waits_read.lua) is told when the second one is there.

KEYS[1]  the hash of the client, "relock_waits:{<client id>}"
ARGV[1]  lease, ms
ARGV[2]  beat
ARGV[3]  the client: "<client id> <client name>"
ARGV[4]  for each hold whose owner waits "<field> <length> <value>", where the field is the number
         of the hold, or its token, and the value "<at> <ms> <serial> <form> <lock>": see
         docs/wire.md; <at> is 0 if the wait has not been published yet. Empty: no owner waits

Returns  { <at> in place of 0, the time of the server in us when this beat ran first; 2 if another
         client has asked for beats since the last time, 1 if it has only read the hash, else 0 };
         nil if the beat is too old
]]
local time = redis.call('time')
local at = string.format('%.0f', time[1] * 1000000 + time[2])
local waits = ARGV[4]
local beat = redis.call('hget', KEYS[1], 'beat')
if tonumber(beat or 0) > tonumber(ARGV[2]) then
    return false
elseif beat == ARGV[2] then
    at = redis.call('hget', KEYS[1], 'at') or at
end

local looked = redis.call('hget', KEYS[1], 'looked')
local asker = redis.call('hget', KEYS[1], 'asker')
redis.call('del', KEYS[1])
if asker then -- this is the second beat since it asked
    redis.pcall('publish', 'relock_client:{' .. asker .. '}', 'beats')
end
local asks = looked and #looked == 36
local answer = { tonumber(at), asks and 2 or looked and 1 or 0 }
if waits == '' then
    return answer
end
local from = 1
while from <= #waits do
    local field, length, start = waits:match('^(%S+) (%d+) ()', from)
    from = start + tonumber(length)
    redis.call('hset', KEYS[1], field, (waits:sub(start, from - 1):gsub('^0 ', at .. ' ')))
end
redis.call('hset', KEYS[1], 'beat', ARGV[2], 'at', at, 'client', ARGV[3])
if asks then
    redis.call('hset', KEYS[1], 'asker', looked)
end
redis.call('pexpire', KEYS[1], ARGV[1])
return answer
