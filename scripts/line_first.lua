--[[
Part of other scripts: tells the first client in line that was not told to acquire the lock that it
is first, unless it knows. Needs `line`, `turn`, `told`, `first`, that client's `entry`, and `me`,
which learns it from the reply; and `tell` of line_inbox.lua. A client without a subscription is gone,
and leaves the line.
]]
while entry and entry ~= first do
    if entry ~= me and tell(entry, 'first') == 0 then
        redis.call('lrem', line, 1, entry)
        entry = redis.call('lindex', line, told and 1 or 0)
    else
        redis.call('hset', turn, 'first', entry)
        first = entry
    end
end
if not entry and not told then
    redis.call('del', turn)
end
