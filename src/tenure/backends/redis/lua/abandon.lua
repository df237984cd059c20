-- Moves jobs to the dead letters. ARGV: time, then for each lease: member, id, outcome, failure.
-- Returns the same as ack.
local now = time()
even_when_full()
local missing = {}

for i = 2, #ARGV, 4 do
  local member, id, outcome, failure = unpack(ARGV, i, i + 3)
  if redis.call('ZREM', key('leases'), member) == 1 then
    forget_lease(id)
    free_unique(id)
    redis.call('HDEL', key('meta'), id)
    redis.call('HSET', key('deaths'), id, outcome)
    redis.call('ZADD', key('dead'), now, id)
    if failure ~= '' then save_failure(id, failure) end
  else
    missing[#missing + 1] = (i - 2) / 4 + 1
    missing[#missing + 1] = redis.call('HGET', key('deaths'), id) == outcome and 2 or 1
  end
end
tell_ends()
return missing
