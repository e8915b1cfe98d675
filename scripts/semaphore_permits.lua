--[[
Reads or sets the number of permits of a semaphore.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  "read"; "init": sets it unless it was set; "set": sets it; a number: sets it if it is that
ARGV[2]  the number of all permits, free and out
ARGV[3]  channel of the semaphore
ARGV[4]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH; elsewhere absent

Returns  { permits that are free, permits that are out, 1 if this has set the number, -1 if it was never set,
         else 0 }
]]
local verb, publish = ARGV[1], ARGV[4]
--+ permits_open.lua
local n_out = redis.call('zcard', timeouts)
local is_set = false
if verb == 'init' and not free then
    free = ARGV[2] - n_out -- the number alone may have been deleted
    redis.call('set', KEYS[1], string.format('%.0f', free))
    is_set = true
elseif verb == 'set' or (free and tonumber(verb) == free + n_out) then
    free = redis.call('incrby', KEYS[1], ARGV[2] - n_out - (free or 0))
    is_set = true
end
local answer = { free or 0, n_out, is_set and 1 or free and 0 or -1 }
if is_set then
    --+ line_name.lua
    -- The first in line may want more than there are now in all: it is told to ask.
    redis.pcall('hdel', 'relock_waiters:turn:' .. name, 'needer')
end
if is_set or expired[1] then
    local channel, result = ARGV[3], 0
    --+ permits_free.lua
end
if is_set and free <= 0 then
    --+ line_keys.lua
    --+ line_inbox.lua
    local head = exists == 1 and redis.pcall('lindex', line, '0')
    if type(head) == 'string' then
        tell(head, 'now')
    end
end
return answer
