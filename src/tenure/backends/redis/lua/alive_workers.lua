-- The records of the workers that are alive.
return ask('HMGET', key('records'), redis.call('ZRANGEBYSCORE', key('seen'), '(' .. time(), '+inf'))
