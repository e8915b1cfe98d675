--[[
Part of the scripts that renew many locks by `renew`. An error concerns its lock alone.
]]
local results = {}
for i = 1, #KEYS do
    local is_done, result = pcall(renew, KEYS[i], ARGV[2 * i - 1], ARGV[2 * i])
    results[i] = is_done and result
end
return results
