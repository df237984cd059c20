-- Deletes records of one state and queue. ARGV: time, "state:queue", before, limit. Returns how many.
even_when_full()
local set = key('of:' .. ARGV[2])
local old = redis.call('ZRANGEBYSCORE', set, '-inf', '(' .. ARGV[3], 'LIMIT', 0, ARGV[4])
call('ZREM', set, old)
call('HDEL', key('jobs'), old)
if redis.call('EXISTS', key('tags')) == 1 then
  for i, tags in ipairs(ask('HMGET', key('tags'), old)) do
    for tag in string.gmatch(tags or '', '[^,]+') do redis.call('ZREM', key('tag:' .. tag), old[i]) end
  end
  call('HDEL', key('tags'), old)
end
if redis.call('EXISTS', set) == 0 then redis.call('SREM', key('places'), ARGV[2]) end
return #old
