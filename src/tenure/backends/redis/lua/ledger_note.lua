-- Changes the states of ticks. ARGV: time, then for each: id, state, why and the states that it may follow.
-- Returns id and value of each tick that has changed.
even_when_full()
local now = time()
local ended = { succeeded = true, failed = true, skipped = true }
local changed = {}
for i = 2, #ARGV, 4 do
  local id, state, why, before = unpack(ARGV, i, i + 3)
  local value = redis.call('HGET', key('ticks'), id)
  if value then
    local was, times, schedule = string.match(value, '^(%l+) (%d+ %d+ %d+) %d+\n([^\n]*)\n')
    if string.find(before, ' ' .. was .. ' ', 1, true) then
      value = state .. ' ' .. times .. ' ' .. now .. '\n' .. schedule .. '\n' .. why
      redis.call('HSET', key('ticks'), id, value)
      redis.call('ZREM', key('open'), id)
      redis.call('ZADD', key(ended[state] and 'ended' or 'open'), now, id)
      changed[#changed + 1] = id
      changed[#changed + 1] = value
    end
  end
end
return changed
