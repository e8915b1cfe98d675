--[[
Part of the scripts that use the line: `is_moving` tells whether the slot of the lock is half moved.
Needs `publish` of line_name.lua, and `exists`, in a cluster the reply of EXISTS to a key of the line and another that never exists:
the server refuses this only while the slot is half moved, or if the user may not use the line. In a
half moved slot a script must not use the line: its keys may be at the other node, and if it made
them anew at this one, the move could not be completed.
]]
local is_moving = publish and type(exists) == 'table'
    and (exists.err:find('local key', 1, true) or exists.err:find('rehashing', 1, true))
