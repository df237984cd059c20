-- How many jobs ended in a state at or after a time. ARGV: time, state, that time, and the highest count, if any.
-- A binary search: the list of ended jobs is in the order in which they ended.
local state, since, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4] or math.huge)
if state == 'dead' then return math.min(limit, redis.call('ZCOUNT', key('dead'), ARGV[3], '+inf')) end

local list = key('ended:' .. state)
local all = redis.call('LLEN', list)
local older, first = math.max(0, all - limit), all
while older < first do
  local middle = math.floor((older + first) / 2)
  local record = redis.call('HGET', key('jobs'), redis.call('LINDEX', list, middle))
  local finished = record and tonumber(string.match(record, '^E (%d+)'))
  if finished and finished >= since then first = middle else older = middle + 1 end
end
return all - older
