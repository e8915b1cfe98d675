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
    if told == entry and (kept_ms <= 0 or kept_ms > 100) then -- more: the clock was set
        redis.call('lrem', line, '1', told)
        redis.call('hdel', turn, 'told')
        entry = redis.call('lindex', line, '0')
    elseif told == entry then
        free = 0
    end
    while entry and free > 0 do
        local is_turn = free >= (state[4] == entry and tonumber(state[5]) or 1)
        if tell(entry, is_turn and 'now' or 'first') ~= 0 then
            local behind = is_turn and redis.call('lindex', line, '1')
            if is_turn then
                redis.call('hset', turn, 'told', entry, 'until', string.format('%.0f', now + 100))
            end
            if behind and behind ~= first then
                tell(behind, 'first')
            end
            redis.call('hset', turn, 'first', behind or entry)
            break
        end
        redis.call('lrem', line, '1', entry)
        entry = redis.call('lindex', line, '0')
    end
    if entry and told ~= entry and free <= 0 and first ~= entry then
        tell(entry, 'first')
        redis.call('hset', turn, 'first', entry)
    end
    if not entry then
        redis.call('del', turn)
    end
end
