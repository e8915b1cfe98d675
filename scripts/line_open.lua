--[[
Part of the scripts that acquire a lock. At a first level, asks for the lock and for the line at once.
Defines what line_ask.lua needs, and

is_open  nobody waits for the lock, and it is free. That is mostly so, and then one EXISTS is all that
         the caller has to ask
ttl      PTTL of the lock, -2 if it is free; nil if that is not known

No lock is open to a user who may not use the line. Nor is one to a caller outside of the line, because
its user may not have the right to ask for the line: see ARGV[5] of line_ask.lua.
]]
local publish = ARGV[7]
--+ line_name.lua
local turn = 'relock_waiters:turn:' .. name
local exists = ARGV[3] == '1' and ARGV[5] ~= '' and (
    publish and redis.pcall('exists', KEYS[1], turn, turn .. ':never')
    or redis.pcall('exists', KEYS[1], turn))
local is_open, state = exists == 0, nil
local ttl = is_open and -2 or nil
if exists == 1 then
    -- Either the lock or the line is there.
    state = redis.pcall('hmget', turn, 'told', 'first', 'listener')
    if state.err then
        exists = state
    else
        ttl = (state[1] or state[2] or state[3]) and -2 or redis.call('pttl', KEYS[1])
        exists = ttl == -2 and 1 or 0
    end
elseif exists == 2 then
    exists = 1
end
