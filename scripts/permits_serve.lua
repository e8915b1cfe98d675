--[[
Part of the scripts of a semaphore that may leave permits for the first client in line: tells it to acquire
them if there are enough, and the next one that it is first behind it. For 100 ms the permits are kept for
the client that was told. If it needs more than there are, it is told that it is first, so that one that
is gone leaves the line. The script of a client that is served tells the next one.

Needs `line` and `turn`; `free` and `now` of permits_open.lua; and `tell` of line_inbox.lua. The fields of `turn`:

told, until     the client that was told, and until when the permits are kept for it
first           the last client that was told that it is first
needer, need    the first client that was refused, and how many permits it needs
]]
local entry = redis.pcall('lindex', line, '0') -- a user without the right to it has no line
if type(entry) == 'string' then
    local state = redis.call('hmget', turn, 'told', 'until', 'first', 'needer', 'need')
    local told, first = state[1], state[3]
    local kept_ms = tonumber(state[2] or 0) - now
    local is_told = told == entry and kept_ms > 0 and kept_ms <= 100 -- more: the clock was set
    if told == entry and not is_told then
        redis.call('lrem', line, '1', told)
        redis.call('hdel', turn, 'told')
        entry = redis.call('lindex', line, '0')
    end
    -- One that is gone leaves the line.
    local function tell_first(place)
        local at = redis.call('lindex', line, place)
        while at and at ~= first and tell(at, 'first') == 0 do
            redis.call('lrem', line, '1', at)
            at = redis.call('lindex', line, place)
        end
        return at
    end
    while entry and free > 0 and not is_told do
        local is_turn = free >= (state[4] == entry and tonumber(state[5]) or 1)
        if tell(entry, is_turn and 'now' or 'first') ~= 0 then
            if is_turn then
                redis.call('hset', turn, 'told', entry, 'until', string.format('%.0f', now + 100))
            end
            is_told = is_turn
            break
        end
        redis.call('lrem', line, '1', entry)
        entry = redis.call('lindex', line, '0')
    end
    if free <= 0 and not is_told then
        entry = tell_first('0')
    end
    if entry then
        redis.call('hset', turn, 'first', is_told and tell_first('1') or entry)
    else
        redis.call('del', turn)
    end
end
