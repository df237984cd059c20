-- Announces a worker. ARGV: time, id, microseconds until it is forgotten, record.
local now = time()
even_when_full()
redis.call('ZADD', key('seen'), later(now, ARGV[3]), ARGV[2])
redis.call('HSET', key('records'), ARGV[2], ARGV[4])
