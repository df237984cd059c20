-- Ends jobs that wait and asks those that run. ARGV: time, ids. Answers a fate each.
local now = time()
even_when_full()
local fates = {}

for i = 2, #ARGV do
  local id = ARGV[i]
  local record = redis.call('HGET', key('jobs'), id)
  local fate
  if not record then
    fate = 'unknown'
  elseif string.sub(record, 1, 1) == 'E' or redis.call('ZSCORE', key('dead'), id) then
    fate = 'too_late'
  elseif redis.call('ZREM', key('ready'), id) == 1
      or redis.call('ZREM', key('delayed'), place_of(record) .. ':' .. id) == 1
      or stop_waiting(id, record) then
    local attempts, crashes, fence = split(redis.call('HGET', key('meta'), id))
    end_cancelled(id, record, now, attempts, crashes, fence)
    fate = 'cancelled'
  else
    redis.call('SADD', key('asked'), id)
    fate = 'asked'
  end
  fates[#fates + 1] = fate
end
return fates
