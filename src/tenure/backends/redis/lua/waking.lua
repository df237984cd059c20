-- The guards whose waiters should try again by now. ARGV: time, limit.
return redis.call('ZRANGEBYSCORE', guards('waking'), '-inf', time(), 'LIMIT', 0, ARGV[2])
