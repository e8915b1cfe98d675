--[[
Part of other scripts: tells the first client in line that was not told to acquire the lock that it
is first, unless it knows. Needs `line`; `told`; `first`; that client's `entry`; `me`, which learns it
from the reply; and `tell` of line_inbox.lua. A client without a subscription is gone, and leaves the
line: afterwards `entry` is the next one.
]]
while entry and entry ~= first and entry ~= me and tell(entry, 'first') == 0 do
    redis.call('lrem', line, '1', entry)
    entry = redis.call('lindex', line, told and '1' or '0')
end
