--[[
Reports for how long holds are held, as their clients have recorded it with since_write.lua.

KEYS[i]  a record, which may stand several times
ARGV[i]  the number of a hold, or its token

Returns  for each hold: ms, -1 if that is not known; and "<client id> <client name>", or ""
]]
local time = redis.call('time')
local reply = {}
for i, key in ipairs(KEYS) do
    local since = tonumber(redis.pcall('hget', key, ARGV[i]))
    local client = redis.pcall('hget', key, 'client')
    local is_known = since and type(client) == 'string'
    reply[2 * i - 1] = is_known
        and math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - since) or -1
    reply[2 * i] = is_known and client or ''
end
return reply
