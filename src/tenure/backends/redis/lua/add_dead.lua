-- Stores dead letters whose id is new. ARGV: time, then for each: id, tail of its record, outcome, failure.
-- Returns the ids that were new.
local now = time()
local stored = {}
for i = 2, #ARGV, 4 do
  local id, tail, outcome, failure = unpack(ARGV, i, i + 3)
  if redis.call('HEXISTS', key('jobs'), id) == 0 then
    local seq = redis.call('INCR', key('seq'))
    redis.call('HSET', key('jobs'), id, seq .. ' ' .. now .. ' ' .. now .. ' ' .. tail)
    redis.call('HSET', key('deaths'), id, outcome)
    redis.call('ZADD', key('dead'), now, id)
    if failure ~= '' then save_failure(id, failure) end
    stored[#stored + 1] = id
  end
end
return stored
