-- Returns jobs to their place.
-- ARGV: time, then for each lease: member, id, place, delay in microseconds, meta, failure.
-- Returns the same as ack.
local now = time()
even_when_full()
local missing, woken = {}, false

for i = 2, #ARGV, 6 do
  local member, id, place, delay, meta, failure = unpack(ARGV, i, i + 5)
  if redis.call('ZREM', key('leases'), member) == 1 then
    if forget_lease(id) then
      local attempts, crashes, fence = split(meta)
      end_cancelled(id, redis.call('HGET', key('jobs'), id), now, attempts, crashes, fence)
    else
      redis.call('HSET', key('meta'), id, meta)
      if delay == '0' then
        woken = make_ready(KEYS[1], id, place, meta) or woken
      else
        redis.call('ZADD', key('delayed'), later(now, delay), place .. ':' .. id)
        woken = true
      end
    end
    if failure ~= '' then save_failure(id, failure) end
  else
    missing[#missing + 1] = (i - 2) / 6 + 1
    missing[#missing + 1] = redis.call('HGET', key('meta'), id) == meta and 2 or 1
  end
end
if woken then wake() end
return missing
