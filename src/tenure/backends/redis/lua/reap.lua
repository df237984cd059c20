-- Returns jobs with an expired lease to their place. ARGV: time, limit. Returns ids, each with whether it was a crash.
local now = time()
even_when_full()
local reaped, woken = {}, false

for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('leases'), '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local id, fence, place = string.match(member, '^(.*):[^:]*:(%d+):(%d+)$')
  local attempts, crashes, _, suspect = split(id and redis.call('HGET', key('meta'), id))
  crashes = crashes + (suspect and 1 or 0)
  redis.call('ZREM', key('leases'), member)
  if not id then
    id = member -- no lease of ours: it is only taken out of the way
  elseif forget_lease(id) then
    end_cancelled(id, redis.call('HGET', key('jobs'), id), now, attempts, crashes, fence)
  else
    redis.call('HSET', key('meta'), id, attempts .. ' ' .. crashes .. ' ' .. fence .. ' 1')
    redis.call('ZADD', key('ready'), place, id)
    woken = true
  end
  reaped[#reaped + 1] = id
  reaped[#reaped + 1] = suspect and 1 or 0
end
if woken then wake() end
return reaped
