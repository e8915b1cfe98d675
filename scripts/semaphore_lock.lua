--[[
Acquires permits of a semaphore, all or none. The caller names their ids, so repeating the call is harmless.
Clients that wait are served in the order of their line: a caller is refused while another client is
before it, though there are enough permits for the caller.

KEYS[1]  the semaphore: its number of free permits
ARGV[1]  lease, ms
ARGV[2]  the permits of the hold: see permits_ids.lua
ARGV[5]  to ARGV[7]: see line_ask.lua

Returns  nil if the caller has the permits; "unset" if the number of permits was never set; "too many" if the
         semaphore has fewer in all; else the remaining lease of the permit that expires first, in ms:
         -1 if none expires, -2 if permits are kept for another client. In line: { that, the place, 0 };
         in a half moved slot { that, 0, 0 }
]]
local publish, field, lease = ARGV[7], ARGV[2], tonumber(ARGV[1])
local me = ARGV[5] ~= '-' and ARGV[5] or nil
local waits = me and me ~= ''
--+ line_name.lua
--+ permits_open.lua
--+ permits_ids.lua
if not free then
    return 'unset'
end
local scores, n = {}, #ids -- a repeat finds some there
for i, id in ipairs(ids) do
    scores[i] = tonumber(redis.call('zscore', timeouts, id))
    n = n - (scores[i] and 1 or 0)
end
if n > 0 and n > free + redis.call('zcard', timeouts) then
    return 'too many'
end

local line, turn = 'relock_waiters:' .. name, 'relock_waiters:turn:' .. name
local exists = publish and redis.pcall('exists', line, line .. ':never')
    or redis.pcall('exists', line)
--+ line_moving.lua
--+ line_inbox.lua
local is_kept, is_next = false, true
if n > 0 and exists == 1 and me ~= '' then
    local state = redis.call('hmget', turn, 'told', 'until')
    local kept_ms = tonumber(state[2] or 0) - now
    local head = redis.call('lindex', line, '0')
    while head and head ~= me and free >= n do
        is_kept = head == state[1] and kept_ms > 0 and kept_ms <= 100 -- more: the clock was set
        if is_kept or (head ~= state[1] and tell(head, 'first') ~= 0) then
            break
        end
        -- It is gone, or was told long ago and has not asked.
        redis.call('lrem', line, '1', head)
        redis.call('hdel', turn, 'told', 'first')
        head = redis.call('lindex', line, '0')
    end
    is_next = not head or head == me
end

if n > 0 and not (is_next and free >= n) then
    local first = redis.call('zrangebyscore', timeouts, '-inf', '+inf', 'withscores', 'limit', '0', '1')
    local left = first[2] and math.max(tonumber(first[2]) - now, 0) or -1
    if left > 315360000000 then
        left = -1 -- Redisson's permits that never expire
    end
    left = is_kept and -2 or left
    if waits and is_moving then
        return { left, 0, 0 }
    end
    if not waits and exists == 1 and expired[1] then
        --+ permits_serve.lua
    end
    if not waits or type(exists) ~= 'number' then
        return left
    end
    local place = redis.call('lpos', line, me)
    local asks_again = place and place > 0
    if not place then
        place = redis.call('rpush', line, me) - 1
    end
    if place == 0 then
        redis.call('hset', turn, 'needer', me, 'need', n, 'first', me)
        redis.call('hdel', turn, 'told') -- it may have been told, and others were faster
    end
    redis.call('pexpire', line, '86400000')
    redis.call('pexpire', turn, '86400000')
    if asks_again then
        redis.call('hdel', turn, 'first') -- it may be gone
    end
    if asks_again or (place > 0 and free > 0) then
        --+ permits_serve.lua
        place = redis.call('lpos', line, me) or 0
    end
    if is_kept then
        place = math.max(place - 1, 0) -- of the clients that were not told
    end
    return { left, place + 1, 0 }
end

-- The ids first: were their number taken away and they not there, nobody would ever give it back.
--+ permits_out.lua
if n > 0 then
    local taken = redis.pcall('decrby', KEYS[1], n)
    if type(taken) == 'table' then
        redis.call('zrem', timeouts, unpack(ids))
        return taken
    end
    free = taken
    local ttl = redis.call('pttl', KEYS[1])
    if ttl > 0 then
        redis.call('pexpire', timeouts, ttl)
    end
end
if exists == 1 then
    if waits then
        redis.call('lrem', line, '1', me)
        if redis.call('hget', turn, 'told') == me then
            redis.call('hdel', turn, 'told')
        end
    end
    if redis.call('exists', line) == 0 then
        redis.call('del', turn)
    end
    --+ permits_serve.lua
end
return nil
