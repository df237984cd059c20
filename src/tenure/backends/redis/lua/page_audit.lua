-- Audit records, the newest first. ARGV: time, "+" or "(" and the id of the last record of the page before, limit.
return ask('HMGET', key('records'), redis.call('ZREVRANGEBYLEX', key('ids'), ARGV[2], '-', 'LIMIT', 0, ARGV[3]))
