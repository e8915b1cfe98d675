--[[
Part of the scripts that free a lock: tells the first client in line to acquire it, and the next two
that they are first and second behind it: these ask by themselves if those before them are silent.
For 100 ms the lock is kept for the client that was told.

Needs `line`, `turn` and `exists` of line_keys.lua; `me`, the entry of a caller whose client waits for
the lock again, else ""; and `n_receivers` of the message on the channel of the lock, negative if that
failed. Redisson's clients and others without a line listen to that channel: so that they get their
share, the client that is told lets them go first now and then, unless they have had more than that:
each hold of theirs that the first client met counts in the field `ahead`.

Returns from the script for a caller that waits again: { 1 + n_receivers, its place }. The place is
1 if it is to acquire the lock now, 2 if it is first behind the client that was told, and so on.
]]
-- A user without the right to this has no line.
local head = exists == 1 and redis.pcall('lrange', line, '0', '2') or exists == 0 and {}
if head and not head.err and (head[1] or me ~= '') then
    --+ line_inbox.lua
    local time = redis.pcall('time')
    if time.err then
        time = { '0', '0' } -- the lock is free, but not reserved
    end
    local us = tonumber(time[2])
    local is_new, place = #head == 0, nil
    if me ~= '' then
        place = head[1] == me and 0 or head[2] == me and 1 or head[3] and redis.call('lpos', line, me)
        if not place then
            place = redis.call('rpush', line, me) - 1
            head[math.min(place, 3) + 1] = me
        end
    end

    local told, entry, third = head[1], head[2], head[3]
    local state, verb = {}, 'now'
    if n_receivers > 0 or (entry and entry ~= me) then
        state = redis.pcall('hmget', turn, 'first', 'listener', 'ahead')
    end
    local n_foreign = n_receivers - (state[2] and 1 or 0)
    if n_foreign > 0 then
        local n_waiting = redis.pcall('llen', line)
        n_waiting = type(n_waiting) == 'number' and n_waiting or #head
        if us % (n_foreign + n_waiting) < n_foreign then
            local ahead = tonumber(state[3] or 0)
            if ahead <= 0 then
                verb = 'later'
            end
            redis.pcall('hset', turn, 'ahead', math.max(ahead, 0) - 1)
        end
    end
    while told and told ~= me and tell(told, verb) == 0 do
        redis.call('lrem', line, '1', told)
        told, entry, third = unpack(redis.call('lrange', line, '0', '2'))
    end
    local first = state[1]
    --+ line_next.lua
    if third and third ~= entry and third ~= me then
        tell(third, 'second')
    end
    if told then
        -- A string, because Redis takes long to write a number.
        local till = string.format('%.0f', time[1] * 1000 + math.floor(us / 1000) + 100)
        local n_new
        if entry then
            n_new = redis.pcall('hset', turn, 'told', told, 'until', till, 'first', entry)
        else
            n_new = redis.pcall('hset', turn, 'told', told, 'until', till)
        end
        is_new = is_new or n_new == 2 or n_new == 3 -- `until` stays as long as the key
    else
        redis.pcall('del', turn)
    end
    if is_new or us % 16 == 0 then
        redis.call('pexpire', line, '86400000')
        redis.call('pexpire', turn, '86400000')
    end
    if me ~= '' then
        if told ~= head[1] or entry ~= head[2] then
            place = redis.call('lpos', line, me) -- others that were gone have left
        end
        return { 1 + n_receivers, place + 1 }
    end
end
