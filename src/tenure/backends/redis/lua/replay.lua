-- Makes dead letters ready again, in the order they were first put. ARGV: time, ids. Returns the ids that were dead.
local now = time()
even_when_full()
local dead, answered = {}, {}
for i = 2, #ARGV do
  local record = redis.call('HGET', key('jobs'), ARGV[i])
  local seq, enqueued, rest = string.match(record or '', '^(%d+) (%d+) %d+ (.*)$')
  if rest and redis.call('ZREM', key('dead'), ARGV[i]) == 1 then
    dead[#dead + 1] = { id = ARGV[i], seq = tonumber(seq), enqueued = enqueued, rest = rest }
  end
end
table.sort(dead, function(one, other) return one.seq < other.seq end)

for i, each in ipairs(dead) do
  local fence = string.match(redis.call('HGET', key('deaths'), each.id) or '', '^%[%d+,%d+,(%d+)') or 0
  local seq = redis.call('INCR', key('seq'))
  local record = seq .. ' ' .. each.enqueued .. ' ' .. now .. ' ' .. each.rest
  redis.call('HSET', key('jobs'), each.id, record)
  redis.call('HSET', key('meta'), each.id, '0 0 ' .. fence .. ' 0')
  redis.call('HDEL', key('deaths'), each.id)
  redis.call('ZADD', key('ready'), place_of(record), each.id)
  answered[i] = each.id
end
if #dead > 0 then wake() end
return answered
