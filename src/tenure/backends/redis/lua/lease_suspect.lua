-- Grants a lease on the first suspect. ARGV: time, owner, microseconds. Returns the same as claim, without a due time.
local now, owner = time(), ARGV[2]
even_when_full()
local popped = redis.call('ZPOPMIN', key('suspects'))
if #popped == 0 then return { now, '' } end

local id, place = unpack(popped)
local meta = redis.call('HGET', key('meta'), id)
local _, _, fence = split(meta)
redis.call('HDEL', key('waits'), id)
redis.call('ZADD', key('leases'), later(now, ARGV[3]), id .. ':' .. owner .. ':' .. (fence + 1) .. ':' .. place)
return { now, popped, { meta }, redis.call('HMGET', key('jobs'), id) }
