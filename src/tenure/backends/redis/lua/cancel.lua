-- Cancels jobs that wait, and requests it of jobs that run. ARGV: time, ids. Returns a result for each id.
local now = time()
even_when_full()
local results = {}

for i = 2, #ARGV do
  local id = ARGV[i]
  local record = redis.call('HGET', key('jobs'), id)
  local result
  if not record then
    result = 'unknown'
  elseif string.sub(record, 1, 1) == 'E' or redis.call('ZSCORE', key('dead'), id) then
    result = 'too_late'
  elseif redis.call('ZREM', key('ready'), id) == 1
      or redis.call('ZREM', key('delayed'), place_of(record) .. ':' .. id) == 1
      or stop_waiting(id, record) then
    local attempts, crashes, fence = split(redis.call('HGET', key('meta'), id))
    end_cancelled(id, record, now, attempts, crashes, fence)
    result = 'cancelled'
  else
    redis.call('SADD', key('asked'), id)
    result = 'asked'
  end
  results[#results + 1] = result
end
return results
