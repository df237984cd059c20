-- Enters ticks that are new. ARGV: time, then id, schedule, tick, due, state, why of each.
-- KEYS[1] is the ledger:
--   ticks   hash  id -> "state tick due entered noted\nschedule\nwhy"
--   of:*    zset  ids of a schedule by tick
--   open    zset  ids of ticks that have not ended, by the time of their last note;  ended  zset  those that have
--   last    hash  schedule -> its latest tick;  paused  hash  schedule -> time of the pause
local now = time()
local ended = { succeeded = true, failed = true, skipped = true }
local new = {}
for i = 2, #ARGV, 6 do
  local id, schedule, tick, due, state, why = unpack(ARGV, i, i + 5)
  local value = table.concat({ state, tick, due, now, now }, ' ') .. '\n' .. schedule .. '\n' .. why
  if redis.call('HSETNX', key('ticks'), id, value) == 1 then
    redis.call('ZADD', key('of:' .. schedule), tick, id)
    redis.call('ZADD', key(ended[state] and 'ended' or 'open'), now, id)
    local last = redis.call('HGET', key('last'), schedule)
    local by_hand = string.sub(tick, -6) ~= '000000'  -- such a tick does not count as the latest
    if not by_hand and (not last or tonumber(last) < tonumber(tick)) then
      redis.call('HSET', key('last'), schedule, tick)
    end
    new[#new + 1] = id
  end
end
return new
