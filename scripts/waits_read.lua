--[[
Part of other scripts: `read_wait` reads for which lock the owner of a hold waits, as the client with
this hash has published it. It marks the hash as read, so that the client sends it again soon. If
the caller asks for that, the client is told to send it now.

Returns  the value of the field, the beat, "<client id> <client name>"; nothing if the owner does not
         wait; "" if this node may not read the hash
]]
local function read_wait(hash, field)
    local value = redis.pcall('hget', hash, field)
    if type(value) == 'table' then
        return ''
    elseif not value then
        return
    end
    local client = redis.call('hget', hash, 'client')
    if ARGV[1] ~= '' or not redis.call('hget', hash, 'looked') then -- one that asks is kept
        redis.call('hset', hash, 'looked', ARGV[1])
    end
    if ARGV[1] ~= '' then
        redis.pcall('publish', 'relock_client:{' .. client:sub(1, 36) .. '}', 'waits')
    end
    return value, redis.call('hget', hash, 'beat'), client
end
