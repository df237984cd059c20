-- A worker has stopped. ARGV: time, id.
redis.call('ZREM', key('seen'), ARGV[2])
redis.call('HDEL', key('records'), ARGV[2])
