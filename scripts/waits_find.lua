--[[
Reports for which lock the owner of a hold waits, as its client has published it. It marks the hash
as read, so that the client sends it again soon.

KEYS[1]  the hash of a client, "relock_waits:{<client id>}"
ARGV[1]  the field of the hold: see publish_waits.lua

Returns  { the value of that field, the beat, "<client id> <client name>" }; empty if its owner does
         not wait
]]
local value = redis.call('hget', KEYS[1], ARGV[1])
if not value then
    return {}
end
redis.call('hset', KEYS[1], 'looked', 1)
return {
    value,
    redis.call('hget', KEYS[1], 'beat'),
    redis.call('hget', KEYS[1], 'client'),
}
