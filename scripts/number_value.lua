--[[
Part of the scripts of a number. Needs `value`, what GET has returned: ends the script with an error if
that is no number.
]]
if value and not value:find('^-?%d+$') then
    return redis.error_reply('WRONGTYPE Operation against a value that is no number')
end
