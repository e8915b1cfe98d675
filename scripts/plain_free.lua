--[[
Part of the scripts that release a plain lock: ends the script unless the hold of the token ARGV[1] is
there and ARGV[2], its count, is 0. Then frees the lock.
]]
local found = redis.pcall('get', KEYS[1])
--+ other_type.lua
if found ~= ARGV[1] then
    return (is_other or redis.call('get', KEYS[1])) and -1 or 0
end

if ARGV[2] ~= '0' then
    return 1
end

redis.call('del', KEYS[1])
