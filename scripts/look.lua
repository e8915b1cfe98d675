--[[
Reports which kind of lock a key is, as far as its keys show it, and which owners or clients wait for
it. The queue of a fair lock, the line of other locks and the token counter count as absent if the
user has no right to them. Without TIME, no deadline is known.

KEYS[1]  the lock
ARGV[1]  how many of those that wait are to be named
ARGV[2]  in a cluster: see line_name.lua

Returns  the kind: "free", "reentrant" (or spin, or a fair lock without waiters), "fenced", "fair",
         "rw", "plain", "string" (a plain lock only if the caller knows better), "other" (no lock);
         number of those that wait; the client in the line whose turn it is, or "";
         and for each that is named its entry, and the ms until its deadline, -1 if it has none
]]
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local publish = ARGV[2]
--+ line_name.lua
local queue = 'redisson_lock_queue:' .. tag
local line = 'relock_waiters:' .. name

local function try(...)
    local reply = redis.pcall(...)
    return not (type(reply) == 'table' and reply.err) and reply
end

local function is_owner(field)
    return field:match('^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') or field:match(':%d+:write$')
end

local function kind_of_hash()
    local mode = redis.call('hget', KEYS[1], 'mode')
    if redis.call('hlen', KEYS[1]) > (mode and 10000 or 1) then
        return 'other' -- more fields than readers can have, and too many to look at
    end
    for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
        if field ~= 'mode' and not is_owner(field) then
            return 'other'
        end
    end
    if mode then
        return (mode == 'read' or mode == 'write') and 'rw' or 'other'
    elseif try('exists', queue) == 1 then
        return 'fair'
    end
    return try('exists', 'redisson_lock_token:' .. tag) == 1 and 'fenced' or 'reentrant'
end

-- The tokens of relock, redis-py, node-redlock and redsync.
local function kind_of_string()
    local length = redis.call('strlen', KEYS[1])
    local token = length <= 40 and redis.call('get', KEYS[1]) or ''
    local is_hex = (length == 32 or length == 40) and token:match('^%x+$')
    local is_base64 = length == 24 and token:match('^[%w+/]+=*$')
    return (is_hex or is_base64) and redis.call('pttl', KEYS[1]) > 0 and 'plain' or 'string'
end

local kinds = { none = 'free', hash = kind_of_hash, string = kind_of_string }
local kind = kinds[redis.call('type', KEYS[1]).ok] or 'other'
kind = type(kind) == 'function' and kind() or kind

local is_fair = try('exists', queue) == 1
local list = is_fair and queue or line
local last = tonumber(ARGV[1]) - 1
local time = try('time')
local now = time and time[1] * 1000 + math.floor(time[2] / 1000)
local told = try('hget', 'relock_waiters:turn:' .. name, 'told')
local reply = { kind, try('llen', list) or 0, told or '' }
for _, entry in ipairs(last >= 0 and try('lrange', list, 0, last) or {}) do
    local deadline = is_fair and now and try('zscore', 'redisson_lock_timeout:' .. tag, entry)
    reply[#reply + 1] = entry
    reply[#reply + 1] = deadline and math.max(0, math.floor(deadline - now)) or -1
end
return reply
