-- Saves the tallies of workers. ARGV: time, then slot, field and record of each.
for i = 2, #ARGV, 3 do
  redis.call('ZADD', key('slots'), ARGV[i], ARGV[i + 1])
  redis.call('HSET', key('records'), ARGV[i + 1], ARGV[i + 2])
end
