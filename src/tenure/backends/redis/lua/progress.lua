-- Saves the progress of held leases. ARGV: time, then member, id and progress of each.
even_when_full()
for i = 2, #ARGV, 3 do
  if redis.call('ZSCORE', key('leases'), ARGV[i]) then
    redis.call('HSET', key('progress'), ARGV[i + 1], ARGV[i + 2])
  end
end
