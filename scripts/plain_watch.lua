--[[
Reads the lock for a waiter that Redis tells of the next change. Writes nothing.

All tokens of this library, and of no other known one, have 40 characters. With another token comes
the time, by which clients agree on when they leave the lock to the other library: lib/lock/wake/room.c.

KEYS[1]  the lock: a string, the token of the hold

Returns  nil if it is free; token of the holder, at most 1024 bytes; of another library, { that, ms since
         1970 }, unless the user has no right to TIME
]]
local token = redis.call('get', KEYS[1])
if not token or #token == 40 then
    return token
end

token = token:sub(1, 1024)
local time = redis.pcall('time')
return time.err and token or { token, time[1] * 1000 + math.floor(time[2] / 1000) }
