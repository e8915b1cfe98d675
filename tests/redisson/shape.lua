-- Describes keys, a line each: name, type, values, lease. Ids of clients with the number behind
-- them become U:N, times are rounded to tens of seconds.
--
-- ARGV[1]  a pattern of their names
-- Returns: the text

local function neutral(text)
    local hex = '%x%x%x%x'
    local uuid = hex .. hex .. ('%-' .. hex):rep(4) .. hex .. hex

    return (text:gsub(uuid .. ':%d+', 'U:N'))
end

local function tens(ms)
    return ms < 0 and 'none' or math.floor(ms / 10000 + 0.5) * 10 .. ' s'
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The names of a flat list with their values.
local function named(flat, text_of)
    local all = {}

    for i = 1, #flat, 2 do
        table.insert(all, flat[i] .. '=' .. text_of(flat[i + 1]))
    end
    return all
end

local values = {
    string = function(key) return redis.call('get', key) end,
    list = function(key) return table.concat(redis.call('lrange', key, 0, -1), ' ') end,
    hash = function(key)
        local all = named(redis.call('hgetall', key), tostring)

        table.sort(all)
        return table.concat(all, ' ')
    end,
    zset = function(key)
        local all = named(redis.call('zrange', key, 0, -1, 'withscores'), function(score)
            return 'now+' .. tens(score - now)
        end)

        return table.concat(all, ' ')
    end,
}
local lines, keys = {}, redis.call('keys', ARGV[1])

table.sort(keys)
for _, key in ipairs(keys) do
    if not key:find('^redisson_unlock_latch:') then
        local kind = redis.call('type', key).ok

        table.insert(lines, key .. ' ' .. kind .. ' ' .. values[kind](key) .. ' lease '
            .. tens(redis.call('pttl', key)) .. '\n')
    end
end
return neutral(table.concat(lines))
