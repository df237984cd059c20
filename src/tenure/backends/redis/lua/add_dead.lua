-- Stores dead letters whose id is new. ARGV: time, then for each: id, tail of its record, outcome, failure,
-- tags.
-- Returns the ids that were new.
local now = time()
local stored = {}
for i = 2, #ARGV, 5 do
  local id, tail, outcome, failure, tags = unpack(ARGV, i, i + 4)
  if redis.call('HEXISTS', key('jobs'), id) == 0 then
    local seq = redis.call('INCR', key('seq'))
    redis.call('HSET', key('jobs'), id, seq .. ' ' .. now .. ' ' .. now .. ' ' .. tail)
    redis.call('HSET', key('deaths'), id, outcome)
    redis.call('ZADD', key('dead'), now, id)
    if failure ~= '' then save_failure(id, failure) end
    add_tags(id, tags, now)
    stored[#stored + 1] = id
  end
end
return stored
