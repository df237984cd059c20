-- A page of the ids of jobs in one state. ARGV: time, state, how many to skip, limit.
local state, first, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local last = first + limit - 1
if state == 'ready' then return redis.call('ZRANGE', key('ready'), first, last) end
if state == 'dead' then return redis.call('ZREVRANGE', key('dead'), first, last) end

local found = {}
if state == 'delayed' then
  for _, member in ipairs(redis.call('ZRANGE', key('delayed'), first, last)) do
    found[#found + 1] = string.match(member, '^%d+:(.*)$')
  end
elseif state == 'leased' then
  for _, member in ipairs(redis.call('ZRANGE', key('leases'), first, last)) do
    found[#found + 1] = string.match(member, '^(.*):[^:]*:%d+:%d+$')
  end
elseif state == 'parked' then
  local ids = redis.call('HKEYS', key('waits'))
  table.sort(ids)
  for i = first + 1, math.min(last + 1, #ids) do found[#found + 1] = ids[i] end
else
  local ids = redis.call('LRANGE', key('ended:' .. state), -last - 1, -first - 1)
  for i = #ids, 1, -1 do found[#found + 1] = ids[i] end
end
return found
