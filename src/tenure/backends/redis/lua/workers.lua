-- The records of those that live.
return ask('HMGET', key('records'), redis.call('ZRANGEBYSCORE', key('seen'), '(' .. time(), '+inf'))
