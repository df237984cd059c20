-- Deletes tallies of slots before a time. ARGV: time, before, limit. Returns how many.
even_when_full()
local old = redis.call('ZRANGEBYSCORE', key('slots'), '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
call('ZREM', key('slots'), old)
call('HDEL', key('records'), old)
return #old
