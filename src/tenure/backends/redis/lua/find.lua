-- Everything about one job. ARGV: time, id. Returns nothing, or
-- {state, record, meta, due time or time of death, outcome of a dead letter, failures, progress, cancel requested,
-- guard that it waits for}.
local id = ARGV[2]
local record = redis.call('HGET', key('jobs'), id)
if not record then return {} end
local died = redis.call('ZSCORE', key('dead'), id)
local due = false
local state = 'leased'
local waits_for = redis.call('HGET', key('waits'), id)
if string.sub(record, 1, 1) == 'E' then
  state = 'ended'
elseif died then
  state = 'dead'
elseif waits_for then
  state = 'parked'
elseif redis.call('ZSCORE', key('ready'), id) then
  state = 'ready'
else
  due = redis.call('ZSCORE', key('delayed'), place_of(record) .. ':' .. id)
  if due then state = 'delayed' end
end
return {
  state, record, redis.call('HGET', key('meta'), id), due or died, redis.call('HGET', key('deaths'), id),
  redis.call('HGET', key('failures'), id), redis.call('HGET', key('progress'), id),
  redis.call('SISMEMBER', key('asked'), id), waits_for,
}
