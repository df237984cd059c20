-- Deletes ended ticks. ARGV: time, before, keep, limit, ended states. Returns how many.
even_when_full()
local keep, limit, gone = tonumber(ARGV[3]), tonumber(ARGV[4]), 0

local function drop(id)
  local value = redis.call('HGET', key('ticks'), id)
  if value then redis.call('ZREM', key('of:' .. string.match(value, '\n([^\n]*)\n')), id) end
  redis.call('HDEL', key('ticks'), id)
  redis.call('ZREM', key('ended'), id)
  gone = gone + 1
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('ended'), '-inf', '(' .. ARGV[2], 'LIMIT', 0, limit)) do drop(id) end
for _, schedule in ipairs(redis.call('HKEYS', key('last'))) do
  if gone >= limit then break end
  local surplus = redis.call('ZCARD', key('of:' .. schedule)) - keep
  if surplus > 0 then
    local ids = redis.call('ZRANGE', key('of:' .. schedule), 0, math.min(surplus, limit - gone) - 1)
    for _, id in ipairs(ids) do
      local value = redis.call('HGET', key('ticks'), id)
      if not value or string.find(ARGV[5], ' ' .. string.match(value, '^%l+') .. ' ', 1, true) then drop(id) end
    end
  end
end
return gone
