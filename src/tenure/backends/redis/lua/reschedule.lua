-- Moves waiting jobs to another start time. ARGV: time, due ("+microseconds" from now), ids.
-- Reresults a result for each id.
local now, due = time(), ARGV[2]
even_when_full()
if string.sub(due, 1, 1) == '+' then due = later(now, string.sub(due, 2)) end
local results, moved = {}, false

for i = 3, #ARGV do
  local id = ARGV[i]
  local record = redis.call('HGET', key('jobs'), id)
  local result
  if not record then
    result = 'unknown'
  elseif string.sub(record, 1, 1) == 'E' or redis.call('ZSCORE', key('dead'), id) then
    result = 'too_late'
  else
    local place = place_of(record)
    if redis.call('ZREM', key('ready'), id) == 1
        or redis.call('ZREM', key('delayed'), place .. ':' .. id) == 1
        or stop_waiting(id, record) then
      local start, rest = string.match(record, '^(%d+ %d+ )%d+( .*)$')
      redis.call('HSET', key('jobs'), id, start .. due .. rest)
      if tonumber(due) > tonumber(now) then
        redis.call('ZADD', key('delayed'), due, place .. ':' .. id)
      else
        make_ready(KEYS[1], id, place, redis.call('HGET', key('meta'), id))
      end
      result, moved = 'rescheduled', true
    else
      result = 'running'
    end
  end
  results[#results + 1] = result
end
if moved then wake() end  -- also for delayed jobs: a waiting worker must learn of an earlier due time
return results
