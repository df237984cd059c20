-- Deletes jobs that ended before a time. ARGV: time, state, before, limit. Returns how many.
local state, before, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local old = {}

if state == 'dead' then
  old = redis.call('ZRANGEBYSCORE', key('dead'), '-inf', '(' .. ARGV[3], 'LIMIT', 0, limit)
  call('ZREM', key('dead'), old)
  call('HDEL', key('deaths'), old)
else
  local list = key('ended:' .. state)
  local ids = redis.call('LRANGE', list, 0, limit - 1)
  for i, record in ipairs(ask('HMGET', key('jobs'), ids)) do
    local finished = record and tonumber(string.match(record, '^E (%d+)'))
    if finished and finished >= before then break end
    old[i] = ids[i]
  end
  if #old > 0 then redis.call('LTRIM', list, #old, -1) end
end
call('HDEL', key('jobs'), old)
call('HDEL', key('failures'), old)
return #old
