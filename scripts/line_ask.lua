--[[
Part of the scripts that acquire a lock, for a first level: the line of waiting clients. Needs
`name` of line_name.lua; `turn`, the key of the line that exists while clients wait; `exists`: 1 or 0,
if `turn` exists or not, or an error, or false for a caller outside of the line; `state`: the first three
fields of `turn`, nil if they have not been read; `mode` of a read-write lock; and `left`: -2 if the lock can be
granted, else the lease in the way. Returns from the script if the caller is refused here; otherwise
the caller has left the line.

ARGV[5]  the caller's entry in the line: "<client id>", with ":read" or ":write" on a read-write
         lock; absent, or "-" before ARGV[7], if a refused caller does not wait; "" for a caller
         outside of the line, which no reservation concerns
ARGV[6]  1 if the caller listens to the channel of the lock
ARGV[7]  in a cluster: see line_name.lua
]]
local me = ARGV[5] ~= '-' and ARGV[5]
--+ line_moving.lua
if is_moving and me and left ~= -2 then
    return { left, 0, 0 }
end
-- A user who may not use the line has none.
local has_line = exists == 1 or (exists == 0 and left ~= -2 and me)
local is_told = me and left == -2 and state and state[1] == me
if has_line and not is_told and not (state and exists == 0) then
    state = redis.pcall('hmget', turn, 'told', 'first', 'listener', 'until', 'ahead')
end
if has_line and not state.err then
    local line = 'relock_waiters:' .. name
    local waits = me
    me = me or ''
    local told, first, listener = state[1], state[2], state[3]
    local till, ahead = state[4], state[5]
    local is_reserved = false
    if told and told ~= me and left == -2 then
        local time = redis.pcall('time')
        local kept_ms = time.err and 0 or tonumber(till) - time[1] * 1000 - math.floor(time[2] / 1000)
        is_reserved = kept_ms > 0 and kept_ms <= 100 -- more: the clock was set
    end

    if left ~= -2 or is_reserved then
        if not waits then
            return left
        end
        local place = exists == 1 and redis.call('lpos', line, me)
        if not place then
            place = redis.call('rpush', line, me) - 1
        elseif place > 1 then
            -- It asks again: the first client may be gone.
            --+ line_inbox.lua
            local entry = redis.call('lindex', line, told and '1' or '0')
            first = false
            --+ line_first.lua
            first, place = entry, redis.call('lpos', line, me)
        end
        if told == me then
            redis.call('hdel', turn, 'told') -- a client outside of the line was faster
        elseif told then
            place = place - 1 -- of the clients that were not told
        end
        local is_foreign = 0
        if place == 0 then
            if first ~= me then
                redis.call('hset', turn, 'first', me, 'until', till or '0')
            end
            if ARGV[6] == '1' and listener ~= me then
                redis.call('hset', turn, 'listener', me)
            end
            local fields = redis.pcall('hkeys', KEYS[1])
            for _, field in ipairs(fields.err and {} or fields) do
                if #(field:match(':(%d+)') or '0123456789') < 10 then
                    is_foreign = 1
                end
            end
            if is_foreign == 1 and ARGV[6] == '1' then
                -- It asks once for each of their releases. More would be a debt without an end.
                redis.call('hset', turn, 'ahead', math.min(tonumber(ahead or 0) + 1, 100))
            end
            if publish and left ~= -2 then
                is_foreign = 1 -- perhaps: clients of earlier versions have no line in a cluster
            end
        elseif first == me then
            redis.call('hdel', turn, 'first')
        end
        if listener == me and (place > 0 or ARGV[6] ~= '1') then
            redis.call('hdel', turn, 'listener')
        end
        if exists == 0 then
            redis.call('pexpire', turn, '86400000')
            redis.call('pexpire', line, '86400000')
        end
        return { left, place + 1, is_foreign }
    end

    if told == me and first == me then
        redis.call('del', line, turn) -- nobody else is in line: that client would be first
    else
        --+ line_inbox.lua
        redis.call('lrem', line, '1', me)
        if told and told ~= me then
            redis.call('lrem', line, '1', told) -- it was told long ago, and has not asked
        end
        if me:sub(37) == ':read' and mode ~= 'write' then
            --+ line_readers.lua
        end
        local entry = redis.call('lindex', line, '0')
        if entry and listener == me then
            redis.call('hdel', turn, 'told', 'listener')
        elseif entry and told then
            redis.call('hdel', turn, 'told')
        end
        told = false
        --+ line_first.lua
    end
end
