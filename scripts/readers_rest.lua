--[[
Part of the scripts of a writer: defines `longest`, the time for which living readers keep the lock; 0
if there are none. Needs `tag`.
]]
--+ reader_rest.lua
local longest, fields = 0, redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
    longest = math.max(longest, rest_of(fields[i], tonumber(fields[i + 1]) or 0))
end
