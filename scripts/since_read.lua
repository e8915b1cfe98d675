--[[
Reports for how long a hold is held, as its client has recorded it with since_write.lua.

KEYS[1]  the record
ARGV[1]  the number of the hold, or its token

Returns  ms, -1 if that is not known; "<client id> <client name>", or ""
]]
local since = redis.pcall('hget', KEYS[1], ARGV[1])
local client = redis.pcall('hget', KEYS[1], 'client')
local time = redis.call('time')
if type(since) ~= 'string' or type(client) ~= 'string' then
    return { -1, '' }
end
return { math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - since), client }
