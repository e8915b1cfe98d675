--[[
Part of a script that has freed a plain lock by force: tells the waiters of those libraries that may
share it and whose waiters sleep until they are told, as a release of theirs would. Which library it
is, only the key and the value show. If it is another one, nobody listens. The messages are those in
lib/kind/like.c. Needs the token of the hold in ARGV[1], and neither fails nor reports anything.
]]
local function guess()
    local key, token = KEYS[1], ARGV[1]
    local is_ours = #token == 40
    if key:find('^lock:.') and (is_ours or #token == 24) then -- python-redis-lock
        local signal = 'lock-signal:' .. key:sub(6)
        if type(redis.pcall('llen', signal)) == 'number' then -- else it has data of another program
            redis.pcall('del', signal)
            redis.pcall('lpush', signal, '1')
            redis.pcall('pexpire', signal, '1000')
        end
    elseif key:find('@simple-redis-mutex:lock-', 1, true) == 1 then
        redis.pcall('publish', '@simple-redis-mutex:locks-releases',
            '{ "key": ' .. cjson.encode(key) .. ', "value": "' .. token .. '" }')
    elseif is_ours or #token == 36 then -- Spring Integration: any colon may end the name of the registry
        for registry in key:gmatch('():') do
            redis.pcall('publish', key:sub(1, registry - 1) .. '-channel:' .. key, key)
        end
    end
end

guess()
