--[[
Part of the scripts that have freed a lock that is shared with another library: tells its waiters. The
lock is free even if the user may not do this. Defines `is_told`. Needs

command  publish; or lpush, for waiters that block on a list, which lives for a second
place    the channel, or the key of the list
message
before   what the key of the lock has before the name
name     of the lock in the other library

In `place` and `message`, `%k` stands for the key of the lock, `%j` for the same in JSON, `%t` for the token
in ARGV[1], `%p` for `before` without the colon at its end, and `%n` for the name.
]]
local words = {
    k = KEYS[1],
    j = cjson.encode(KEYS[1]),
    t = ARGV[1],
    p = before:sub(1, -2),
    n = name,
}
place = place:gsub('%%(%l)', words)
message = message:gsub('%%(%l)', words)
local told
if command == 'lpush' then
    redis.pcall('del', place)
    told = redis.pcall('lpush', place, message)
    redis.pcall('pexpire', place, '1000')
else
    told = redis.pcall('publish', place, message)
end
local is_told = type(told) == 'number'
