-- A page of dead letters, oldest first. ARGV: time, limit, time of death and id of the last letter of the page before.
-- Returns {id, time of death, record, outcome, failures} of each.
local limit, after, last = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ids = {}

local function add(found)
  for i = 1, #found, 2 do
    if #ids < 2 * limit and (found[i + 1] ~= after or found[i] > last) then
      ids[#ids + 1] = found[i]
      ids[#ids + 1] = found[i + 1]
    end
  end
end

local rank = after ~= '' and redis.call('ZSCORE', key('dead'), last) == after and redis.call('ZRANK', key('dead'), last)
if rank then
  add(redis.call('ZRANGE', key('dead'), rank + 1, rank + limit, 'WITHSCORES'))
else
  -- The last letter is deleted, or there was none: skip those that died at the same time and sort before it.
  local offset = 0
  repeat
    local found = redis.call(
      'ZRANGEBYSCORE', key('dead'), after == '' and '-inf' or after, '+inf', 'WITHSCORES', 'LIMIT', offset, limit)
    add(found)
    offset = offset + limit
  until #found == 0 or #ids >= 2 * limit
end

local page = {}
for i = 1, #ids, 2 do
  local id = ids[i]
  page[#page + 1] = {
    id, ids[i + 1], redis.call('HGET', key('jobs'), id), redis.call('HGET', key('deaths'), id),
    redis.call('HGET', key('failures'), id),
  }
end
return page
