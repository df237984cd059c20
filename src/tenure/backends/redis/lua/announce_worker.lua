-- Announces a worker. ARGV: time, id, microseconds until it is forgotten, record.
local now = time()
even_when_full()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('seen'), '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', key('seen'), id)
  redis.call('HDEL', key('records'), id)
end
redis.call('ZADD', key('seen'), later(now, ARGV[3]), ARGV[2])
redis.call('HSET', key('records'), ARGV[2], ARGV[4])
