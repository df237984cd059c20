-- Returns jobs with an expired lease to their place. ARGV: time, limit, from which vanished count on a job is a suspect,
-- and the records of a run whose worker vanished, shared with others and alone, with places for time and attempt.
-- Returns ids, each with whether it was a crash: the lease was taken alone.
local now = time()
even_when_full()
local reaped, woken, suspect_after = {}, false, tonumber(ARGV[3])

for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('leases'), '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local id, fence, place = string.match(member, '^(.*):[^:]*:(%d+):(%d+)$')
  local attempts, crashes, _, vanished = split(id and redis.call('HGET', key('meta'), id))
  local alone = vanished == SUSPECT
  crashes = crashes + (alone and 1 or 0)
  vanished = (alone or vanished + 1 >= suspect_after) and SUSPECT or vanished + 1
  redis.call('ZREM', key('leases'), member)
  if not id then
    id = member -- no lease of ours: it is only taken out of the way
  elseif forget_lease(id) then
    end_cancelled(id, redis.call('HGET', key('jobs'), id), now, attempts, crashes, fence)
  else
    local meta = attempts .. ' ' .. crashes .. ' ' .. fence .. ' ' .. vanished
    redis.call('HSET', key('meta'), id, meta)
    save_failure(id, string.format(alone and ARGV[5] or ARGV[4], now, attempts + 1))
    woken = make_ready(KEYS[1], id, place, meta) or woken
  end
  reaped[#reaped + 1] = id
  reaped[#reaped + 1] = alone and 1 or 0
end
if woken then wake() end
return reaped
