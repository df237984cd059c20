-- Deletes jobs that ended before a time. ARGV: time, state, before, limit. Returns how many.
local state, before, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local old, records = {}, {}

if state == 'dead' then
  old = redis.call('ZRANGEBYSCORE', key('dead'), '-inf', '(' .. ARGV[3], 'LIMIT', 0, limit)
  records = ask('HMGET', key('jobs'), old)
  call('ZREM', key('dead'), old)
  call('HDEL', key('deaths'), old)
else
  local list = key('ended:' .. state)
  local ids = redis.call('LRANGE', list, 0, limit - 1)
  records = ask('HMGET', key('jobs'), ids)
  for i, record in ipairs(records) do
    local finished = record and tonumber(string.match(record, '^E (%d+)'))
    if finished and finished >= before then break end
    old[i] = ids[i]
  end
  if #old > 0 then redis.call('LTRIM', list, #old, -1) end
end
for i, id in ipairs(old) do drop_tags(id, records[i]) end
call('HDEL', key('jobs'), old)
call('HDEL', key('failures'), old)
return #old
