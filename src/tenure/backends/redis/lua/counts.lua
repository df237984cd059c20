-- How many jobs are in each state, in the order of STATES in records.py.
local ended = function(state) return redis.call('LLEN', key('ended:' .. state)) end
return {
  redis.call('ZCARD', key('ready')), redis.call('ZCARD', key('delayed')), redis.call('HLEN', key('waits')),
  redis.call('ZCARD', key('leases')),
  ended('done'), redis.call('ZCARD', key('dead')), ended('cancelled'), ended('expired'),
}
