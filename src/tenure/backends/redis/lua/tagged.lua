-- A page of the ids with a tag, the newest enqueue first. ARGV: time, tag, limit, time of enqueue and id of the last job
-- of the page before, which may be in another queue. Returns ids, each with its time of enqueue.
local set, limit, before, last = key('tag:' .. ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
if before == '' then return redis.call('ZREVRANGE', set, 0, limit - 1, 'WITHSCORES') end
if redis.call('ZSCORE', set, last) == before then
  local rank = redis.call('ZREVRANK', set, last)
  return redis.call('ZREVRANGE', set, rank + 1, rank + limit, 'WITHSCORES')
end

-- Skip those that were enqueued at the same time and come before it.
local page, offset = {}, 0
repeat
  local found = redis.call('ZREVRANGEBYSCORE', set, before, '-inf', 'WITHSCORES', 'LIMIT', offset, limit)
  for i = 1, #found, 2 do
    if #page < 2 * limit and (found[i + 1] ~= before or found[i] < last) then
      page[#page + 1] = found[i]
      page[#page + 1] = found[i + 1]
    end
  end
  offset = offset + limit
until #found == 0 or #page >= 2 * limit
return page
