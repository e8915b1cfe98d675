--[[
Part of the scripts that renew many locks by `renew`. An error concerns its lock alone: it ends one
renew_rest(), and the next one goes on behind that lock.
]]
local n, n_renewed, at, results = #KEYS, 0, 0, {}

local function renew_rest()
    for i = at + 1, n do
        at = i
        local result = renew(KEYS[i], ARGV[n + i] or ARGV[n + 1], ARGV[i])
        results[i] = result
        if result == 1 then
            n_renewed = n_renewed + 1
        end
    end
end

while not pcall(renew_rest) do
    results[at] = false
end
return n_renewed == n and 1 or results
