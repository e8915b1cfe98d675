--[[
Part of the scripts of a number. Needs `value`, what GET has returned: ends the script with an error if
that is no number of 64 bits as Redis writes it. Otherwise the commands that check less than INCRBY, like SET
and DEL, would destroy data of another program.
]]
if value and value ~= '0' then
    local sign, digits = value:match('^(-?)([1-9]%d*)$')
    local limit = '922337203685477580' .. (sign == '-' and '8' or '7')
    if not digits or #digits > #limit or (#digits == #limit and digits > limit) then
        return redis.error_reply('WRONGTYPE Operation against a value that is no number')
    end
end
