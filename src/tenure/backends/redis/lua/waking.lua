-- The guards whose waiters are due to try again. ARGV: time, limit.
return redis.call('ZRANGEBYSCORE', guards('waking'), '-inf', time(), 'LIMIT', 0, ARGV[2])
