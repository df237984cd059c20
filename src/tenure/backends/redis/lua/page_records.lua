-- Records of one place, the newest first. ARGV: time, place, limit, and moment and id of the last one shown, if any.
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
