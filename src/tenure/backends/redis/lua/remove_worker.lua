-- Removes a worker that has stopped. ARGV: time, id.
redis.call('ZREM', key('seen'), ARGV[2])
redis.call('HDEL', key('records'), ARGV[2])
