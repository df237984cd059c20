-- Whether a lease is held. ARGV: time, id, owner, fence.
local id, owner, fence = ARGV[2], ARGV[3], ARGV[4]
local record = redis.call('HGET', key('jobs'), id)
if not record or string.sub(record, 1, 2) == 'E ' then return 0 end
return redis.call('ZSCORE', key('leases'), id .. ':' .. owner .. ':' .. fence .. ':' .. place_of(record)) and 1 or 0
