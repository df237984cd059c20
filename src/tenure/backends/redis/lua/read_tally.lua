-- The record of one field. ARGV: time, field.
return redis.call('HGET', key('records'), ARGV[2])
