-- Lets jobs that wait start at another time. ARGV: time, due ("+microseconds" from now), ids. Answers a turn each.
local now, due = time(), ARGV[2]
even_when_full()
if string.sub(due, 1, 1) == '+' then due = later(now, string.sub(due, 2)) end
local turns, moved = {}, false

for i = 3, #ARGV do
  local id = ARGV[i]
  local record = redis.call('HGET', key('jobs'), id)
  local turn
  if not record then
    turn = 'unknown'
  elseif string.sub(record, 1, 1) == 'E' or redis.call('ZSCORE', key('dead'), id) then
    turn = 'too_late'
  else
    local place = place_of(record)
    if redis.call('ZREM', key('ready'), id) == 1
        or redis.call('ZREM', key('delayed'), place .. ':' .. id) == 1
        or stop_waiting(id, record) then
      local born, rest = string.match(record, '^(%d+ %d+ )%d+( .*)$')
      redis.call('HSET', key('jobs'), id, born .. due .. rest)
      if tonumber(due) > tonumber(now) then
        redis.call('ZADD', key('delayed'), due, place .. ':' .. id)
      else
        redis.call('ZADD', key('ready'), place, id)
      end
      turn, moved = 'rescheduled', true
    else
      turn = 'running'
    end
  end
  turns[#turns + 1] = turn
end
if moved then wake() end  -- also for what is delayed: a waiter must learn of an earlier due time
return turns
