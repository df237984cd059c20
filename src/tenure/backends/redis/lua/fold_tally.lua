-- Replaces tallies by their sum, if all are unchanged since they were read.
-- ARGV: time, the stored sum or nothing, then slot, field and record of the sum and of each part.
even_when_full()
if (redis.call('HGET', key('records'), ARGV[4]) or '') ~= ARGV[2] then return 0 end
for i = 6, #ARGV, 3 do
  if redis.call('HGET', key('records'), ARGV[i + 1]) ~= ARGV[i + 2] then return 0 end
end
for i = 6, #ARGV, 3 do
  redis.call('ZREM', key('slots'), ARGV[i + 1])
  redis.call('HDEL', key('records'), ARGV[i + 1])
end
redis.call('ZADD', key('slots'), ARGV[3], ARGV[4])
redis.call('HSET', key('records'), ARGV[4], ARGV[5])
return 1
