-- Records of one state and queue, the newest first. ARGV: time, "state:queue", limit, and moment and id of the last
-- record of the page before, if any.
local set, limit, moment, id = key('of:' .. ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local ids
if moment == '' then
  ids = redis.call('ZREVRANGE', set, 0, limit - 1)
elseif redis.call('ZSCORE', set, id) == moment then
  local rank = redis.call('ZREVRANK', set, id)
  ids = redis.call('ZREVRANGE', set, rank + 1, rank + limit)
else
  ids = redis.call('ZREVRANGEBYSCORE', set, '(' .. moment, '-inf', 'LIMIT', 0, limit)
end
return ask('HMGET', key('jobs'), ids)
