--[[
Part of the scripts of an owner. Defines `is_other`: whether the key of the lock has another type, so
that another program has replaced the lock, and the hold is gone. Needs `found`, the reply of the first
command that reads the key. If that failed for another reason, the script makes the command again, so
that it ends with an error that names the command.
]]
local is_other = found ~= 0 and type(found) == 'table' and found.err:find('WRONGTYPE', 1, true) ~= nil
