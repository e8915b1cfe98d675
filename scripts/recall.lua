--[[
Part of lock.lua, for a caller that is refused. If the number of the holder says that its client may
keep the lock after its last release (the ninth digit from the end is 5 or more), asks that client to
give it back.
]]
local holders = redis.pcall('hgetall', KEYS[1]) -- a right that every kind needs anyway
local number = (holders[1] or ''):match(':(%d+[5-9]%d%d%d%d%d%d%d%d)$')
if number then
    redis.pcall('publish', 'relock_client:{' .. holders[1]:sub(1, 36) .. '}',
        'recall:' .. number .. ' ' .. KEYS[1])
end
