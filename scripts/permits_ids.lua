--[[
Part of the scripts of a semaphore: `ids`, those of the permits of a hold. Needs `field`: what they begin
with, 14 bytes, and how many there are, two bytes.
]]
local ids = {}
for i = 1, field:byte(15) * 256 + field:byte(16) do
    ids[i] = field:sub(1, 14) .. string.char(math.floor((i - 1) / 256), (i - 1) % 256)
end
