-- Replaces the record of an ended job. ARGV: time, id, the record that was read, the new record. Returns 1 if it did.
if redis.call('HGET', key('jobs'), ARGV[2]) ~= ARGV[3] then return 0 end
even_when_full()
redis.call('HSET', key('jobs'), ARGV[2], ARGV[4])
return 1
