-- Saves an audit record, also on a full server, so that users can still delete jobs. ARGV: time, id, its time, record.
even_when_full()
redis.call('HSET', key('records'), ARGV[2], ARGV[4])
redis.call('ZADD', key('ids'), 0, ARGV[2])
redis.call('ZADD', key('times'), ARGV[3], ARGV[2])
