-- Lets jobs wait for guards. ARGV: time, then for each lease: member, id, place, meta, guard, rank among its waiters.
-- A job whose guard is free by now is ready again. Returns the same as ack.
local now = time()
even_when_full()
local missing, woken = {}, false

for i = 2, #ARGV, 6 do
  local member, id, place, meta, name, rank = unpack(ARGV, i, i + 5)
  if redis.call('ZREM', key('leases'), member) == 1 then
    local raw = redis.call('HGET', guards('rows'), name)
    local row = raw and read_row(raw)
    if forget_lease(id) then
      local attempts, crashes, fence = split(meta)
      end_cancelled(id, redis.call('HGET', key('jobs'), id), now, attempts, crashes, fence)
    elseif row and tonumber(row.wake_at) > tonumber(now) then
      redis.call('HSET', key('meta'), id, meta)
      redis.call('HSET', key('waits'), id, name)
      redis.call('ZADD', guards('waiters:' .. name), rank, waiter(id, place))
      row.waiting = true
      save_row(name, row)
    else
      redis.call('HSET', key('meta'), id, meta)
      woken = make_ready(KEYS[1], id, place, meta) or woken
    end
  else
    missing[#missing + 1] = (i - 2) / 6 + 1
    missing[#missing + 1] = 1
  end
end
if woken then wake() end
return missing
