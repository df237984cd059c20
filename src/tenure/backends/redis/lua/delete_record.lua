-- Deletes a record of a job on another broker. ARGV: time, id, the record that was read, its "state:queue".
-- Returns 1 if it did.
if redis.call('HGET', key('jobs'), ARGV[2]) ~= ARGV[3] then return 0 end
even_when_full()
local set = key('of:' .. ARGV[4])
redis.call('HDEL', key('jobs'), ARGV[2])
redis.call('ZREM', set, ARGV[2])
for tag in string.gmatch(redis.call('HGET', key('tags'), ARGV[2]) or '', '[^,]+') do
  redis.call('ZREM', key('tag:' .. tag), ARGV[2])
end
redis.call('HDEL', key('tags'), ARGV[2])
if redis.call('EXISTS', set) == 0 then redis.call('SREM', key('places'), ARGV[4]) end
return 1
