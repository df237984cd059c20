-- Deletes audit records from before a time. ARGV: time, before, limit. Returns how many.
even_when_full()
local old = redis.call('ZRANGEBYSCORE', key('times'), '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
call('ZREM', key('times'), old)
call('ZREM', key('ids'), old)
call('HDEL', key('records'), old)
return #old
