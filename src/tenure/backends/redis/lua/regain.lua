-- Extends and returns the leases of a claim whose answer was lost. ARGV: time, owner of that claim, microseconds.
-- Reads every lease of the queue; that is rare, because it only follows a lost connection, and leases are few.
local now, owner = time(), ARGV[2]
even_when_full()
local expires = later(now, ARGV[3])
local popped, metas, records = {}, {}, {}
for _, member in ipairs(redis.call('ZRANGE', key('leases'), 0, -1)) do
  local id, holder, place = string.match(member, '^(.*):([^:]*):%d+:(%d+)$')
  if holder == owner then
    redis.call('ZADD', key('leases'), expires, member)
    popped[#popped + 1] = id
    popped[#popped + 1] = place
    metas[#metas + 1] = redis.call('HGET', key('meta'), id)
    records[#records + 1] = redis.call('HGET', key('jobs'), id)
  end
end
return { now, popped, metas, records }
