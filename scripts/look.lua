--[[
Reports which kinds of lock keys are, as far as the keys show it, who holds them, and which owners or
clients wait for them. The queue of a fair lock, the line of other locks, the token counter and the
permits of a semaphore count as absent if the user has no right to them. Without TIME, no deadline is
known. Without PUBSUB, no client listens.

KEYS[i]  a lock; in a cluster, all of one slot
ARGV[1]  how many of those that wait are to be named
ARGV[2]  in a cluster: see line_name.lua

Returns  for each lock, as far as 1000 parts of these locks go, and of the first one anyway:
         the kind: "free", "reentrant" (or spin, or a fair lock without waiters), "fenced", "fair",
         "rw", "plain", "token" (looks like that of a plain lock, and may be a hash sum, say),
         "string" (a plain lock only if the caller knows better), "foreign" (a lock that relock does
         not have), "semaphore" (has permits that are out, or were, or clients that wait for some),
         "semaphore?" (a number whose name says so, or for whose permits clients of unleased semaphores
         listen), "latch?" (the same of a latch), "number" (another one), "other" (no lock);
         number of those that wait, or of clients that listen; the client in the line whose turn it is, or "", also if none is
         to be named;
         and a list: for each that is named its entry, and the ms until its deadline, -1 if it has none.
         If none is to be named, instead:
         of a free lock, and of what is no lock: nothing
         of a foreign lock: a holder, the number of holders, and the remaining ms of the last one
         of a number: the number, as text, and its PTTL
         of a semaphore: its free permits, as text ("": the number is missing), the number of permits
         that are out, and for each acquire that has some, as far as 300 permits show: the id of one
         (128 bytes at most), in hex, how many it has, and the ms until they expire, -1 for never or not
         known; those that expire first come first
         of another lock: what inspect.lua, rw_inspect.lua for the write side or plain_inspect.lua
         returns, without a caller
]]
local publish = ARGV[2]

local function tag_of(lock)
    local tag = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
    return tag
end

local function name_of_line(keys)
    --+ line_name.lua KEYS = keys
    return name
end

local key, tag, name, queue, details, n_listening -- of the lock that is looked at
local n_parts = 0 -- of all locks so far
--+ rw_holder.lua

local function try(...)
    local reply = redis.pcall(...)
    return not (type(reply) == 'table' and reply.err) and reply
end

local function is_owner(field)
    return field:match('^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') or field:match(':%d+:write$')
end

local function kind_of_hash()
    local n_fields = redis.call('hlen', key)
    if n_fields > 10000 or (n_fields > 1 and redis.call('hexists', key, 'mode') == 0) then
        return 'other' -- more fields than readers can have, and too many to look at
    end
    local fields = redis.call('hgetall', key)
    local mode
    for at = 1, #fields, 2 do
        n_parts = n_parts + math.max(1, math.min(tonumber(fields[at + 1]) or 1, most_levels))
        if fields[at] == 'mode' then
            mode = fields[at + 1]
        elseif not is_owner(fields[at]) then
            return 'other'
        end
    end
    if mode and mode ~= 'read' and mode ~= 'write' then
        return 'other'
    elseif mode then
        details = rw_holder(key, '', 'write')
        return 'rw'
    end
    details = { fields[1]:sub(1, 1024), tonumber(fields[2]) or 0, 1, redis.call('pttl', key), 0 }
    local tokens = 'redisson_lock_token:' .. tag
    if try('exists', queue, tokens) == 0 then
        return 'reentrant'
    elseif try('exists', queue) == 1 then
        return 'fair'
    end
    return try('exists', tokens) == 1 and 'fenced' or 'reentrant'
end

local time = try('time')
local now = time and time[1] * 1000 + math.floor(time[2] / 1000)

-- In the names that libraries make of the name of a lock, or that people choose.
local lock_words = { lock = true, locks = true, redlock = true, rueidislock = true, mutex = true }

local function is_named(words)
    for word in key:lower():gmatch('%a+') do
        if words[word] then
            return true
        end
    end
end

local uuid = '%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$'

-- lib/lock/state/keys.c makes them.
local function is_relocks(token)
    local mark = 0x72656c6b
    for at = 1, 16, 2 do
        mark = bit.bxor(bit.rol(mark, 5), tonumber(token:sub(at, at + 1), 16))
    end
    return bit.tohex(mark) == token:sub(17, 24)
end

-- redis-py: a UUID of version 1, which has the time in 100 ns since 1582. A hash sum seldom shows a
-- time in the last 400 days.
local function is_redis_pys(token)
    local ms = (tonumber(token:sub(14, 16), 16) * 2 ^ 48 + tonumber(token:sub(9, 12), 16) * 2 ^ 32
        + tonumber(token:sub(1, 8), 16)) / 10000 - 12219292800000
    return token:match('^............1...[89ab]') and now and ms < now + 86400000
        and ms > now - 400 * 86400000
end

local function is_random(text)
    return text:find('%u') and text:find('%l')
end

-- What may also be other data: whose UUIDs, hash sums or session ids it is, only the name can tell.
local function is_token(text)
    local length = #text
    if length == 36 then
        return text:match('^' .. uuid)
    elseif text:match('^%x+$') then
        return length == 32 or length == 40
    elseif length == 16 then
        return text:match('^%w+$') and is_random(text)
    elseif length == 22 then
        return text:match('^[%w_-]+$') and is_random(text)
    elseif length == 24 and text:match('^[%w+/]+=*$') then
        return is_random(text)
    end
    return (length == 20 or length == 24) and text:find('[^%z\32-\126]') -- random bytes
end

local function hex_of(id)
    return (id:gsub('.', function(byte)
        return string.format('%02x', byte:byte())
    end))
end

-- The permits of an acquire of relock's have ids of 16 bytes that differ in the last two. Other
-- libraries, and Redisson before 3.17, have other ids.
local function add_permits(timeouts)
    local out = redis.call('zrangebyscore', timeouts, now and string.format('(%.0f', now) or '-inf',
        '+inf', 'withscores', 'limit', '0', '300')
    local places = {}
    n_parts = n_parts + #out
    for at = 1, #out, 2 do
        local id = out[at]
        local hold = #id .. ':' .. (#id == 16 and id:sub(1, 14) or id)
        local place, left = places[hold], now and math.floor(out[at + 1] - now) or -1
        if place then
            details[place] = details[place] + 1
        else
            places[hold] = #details + 2
            details[#details + 1] = hex_of(id:sub(1, 128))
            details[#details + 1] = 1
            details[#details + 1] = left > 315360000000 and -1 or left -- Redisson's that never expire
        end
    end
end

-- As Redis counts: in 64 bits.
local function is_number(text)
    local digits = text:match('^%-?([1-9]%d*)$') or ''
    return text == '0' or (#digits == 19 and digits <= '9223372036854775807')
        or (#digits > 0 and #digits < 19)
end

-- Permits are out, and somebody has deleted their number.
local function kind_of_nothing()
    local timeouts = tag .. ':timeout'
    local n_out = try('zcount', timeouts, now and string.format('(%.0f', now) or '-inf', '+inf') or 0
    if n_out == 0 then
        return 'free'
    end
    details = { '', n_out }
    add_permits(timeouts)
    return 'semaphore'
end

-- Clients that wait for a latch or for unleased permits are in no list, but listen to a channel. Each
-- counts once. Those of a cluster may listen to a sharded one.
local function listeners_of(channel)
    local plain = try('pubsub', 'numsub', channel)
    local sharded = publish and try('pubsub', 'shardnumsub', channel)
    return (plain and plain[2] or 0) + (sharded and sharded[2] or 0)
end

-- While no permit is out and nobody waits, a semaphore is a number like others. It never has more than
-- 2^31 - 1 permits.
local function kind_of_number(text)
    local timeouts = tag .. ':timeout'
    local may_be = math.abs(text) <= 2147483647
    local n_out = may_be and try('zcard', timeouts) or 0
    if n_out > 0 or (may_be and try('hexists', 'relock_waiters:turn:' .. name, 'need') == 1) then
        local n_expired = now and redis.call('zcount', timeouts, '-inf', string.format('%.0f', now)) or 0
        details = { string.format('%.0f', text + n_expired), n_out - n_expired }
        add_permits(timeouts)
        return 'semaphore'
    end
    details = { text, redis.call('pttl', key) }
    local n_of_latch = listeners_of('redisson_countdownlatch__channel__{' .. key .. '}')
    local n_of_permits = n_of_latch == 0 and listeners_of('redisson_sc:' .. tag) or 0
    n_listening = n_of_latch + n_of_permits
    if n_of_latch > 0
        or (n_of_permits == 0 and is_named({ latch = true, latches = true, countdownlatch = true }))
    then
        return 'latch?'
    end
    return (n_of_permits > 0 or is_named({ semaphore = true, semaphores = true })) and 'semaphore?'
        or 'number'
end

-- The values of the libraries in docs/wire.md#plain.
local function kind_of_string()
    local length = redis.call('strlen', key)
    local is_alone = #KEYS == 1 -- else it is of no interest unless it looks like a lock
    local value = (is_alone or length <= 512) and redis.call('get', key) or ''
    local text = length <= 512 and value or ''
    local rest = redis.call('pttl', key)
    details = { value:sub(1, 1024), 1, 1, rest, 0 }
    local is_hex = text:match('^%x+$')
    if text:match('^ADDED:%d+%-%d%d%-%d%dT[%d:.]+Z@.+:' .. uuid) -- ShedLock
        or (is_hex and #text == 40 and is_relocks(text))
        or (is_hex and #text == 32 and is_redis_pys(text))
    then
        return 'plain'
    elseif is_named(lock_words) then -- simple-redis-mutex and redis-lock write a number
        if text:match('^0%.%d+$') or (#text == 13 and text:match('^%d+$')) then
            return 'plain'
        elseif is_token(text) then -- a hash sum may have the name of the lock under which it was made
            return is_hex and 'token' or 'plain'
        end
    end
    if is_number(text) then
        return kind_of_number(text)
    end
    return is_token(text) and rest > 0 and 'token' or 'string'
end

-- Symfony's locks have 44 characters of base64, and `__write__` beside a writer. The members of a
-- semaphore of redis-semaphore are UUIDs. The scores are when the holders' leases end.
local function kind_of_sorted_set()
    local holder, n_holders, rest = '', 0, -1
    local members = redis.call('zcard', key) <= 1000
        and redis.call('zrange', key, 0, -1, 'withscores') or {}
    n_parts = n_parts + #members
    local is_semaphore = is_named({ semaphore = true })
    for at = 1, #members, 2 do
        local member, score = members[at], tonumber(members[at + 1])
        local is_symfonys = #member == 44 and member:match('^[%w+/]+=*$') and is_random(member)
        local is_foreign = is_symfonys or (is_semaphore and member:match('^' .. uuid))
        if (not is_foreign and member ~= '__write__') or score > 1e14 then
            return 'other'
        elseif is_foreign and now and score > now then
            holder, n_holders, rest = member, n_holders + 1, math.floor(score - now)
        end
    end
    details = { holder, n_holders, rest }
    return n_holders > 0 and redis.call('pttl', key) > 0 and 'foreign' or 'other'
end

local kinds = {
    none = kind_of_nothing,
    hash = kind_of_hash,
    string = kind_of_string,
    zset = kind_of_sorted_set,
}

local function look()
    tag = tag_of(key)
    name = name_of_line({ key })
    queue = 'redisson_lock_queue:' .. tag
    details, n_listening = {}, 0

    local kind = kinds[redis.call('type', key).ok] or 'other'
    local is_sorted_set = kind == kind_of_sorted_set
    kind = type(kind) == 'function' and kind() or kind
    if kind == 'other' and is_sorted_set then
        return { kind, 0, '', {} } -- most are the permits of a semaphore
    elseif kind == 'other' or kind == 'free' then
        details = {}
    end

    local is_fair = kind == 'fair' or (kind == 'free' and try('exists', queue) == 1)
    local list = is_fair and queue or 'relock_waiters:' .. name
    local n_waiting = n_listening > 0 and n_listening or try('llen', list) or 0
    local last = tonumber(ARGV[1]) - 1
    if last < 0 then
        return { kind, n_waiting, '', details }
    end
    local told = try('hget', 'relock_waiters:turn:' .. name, 'told')
    local named = {}
    for _, entry in ipairs(try('lrange', list, 0, last) or {}) do
        local deadline = is_fair and now and try('zscore', 'redisson_lock_timeout:' .. tag, entry)
        named[#named + 1] = entry
        named[#named + 1] = deadline and math.max(0, math.floor(deadline - now)) or -1
    end
    return { kind, n_waiting, told or '', named }
end

local reply = {}
for i = 1, #KEYS do
    if n_parts < 1000 then
        key = KEYS[i]
        n_parts = n_parts + 1
        reply[i] = look()
    end
end
return reply
