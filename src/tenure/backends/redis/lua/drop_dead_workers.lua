-- Deletes workers that did not announce themselves again in time. ARGV: time, limit. Returns how many.
even_when_full()
local dead = redis.call('ZRANGEBYSCORE', key('seen'), '-inf', time(), 'LIMIT', 0, ARGV[2])
call('ZREM', key('seen'), dead)
call('HDEL', key('records'), dead)
return #dead
