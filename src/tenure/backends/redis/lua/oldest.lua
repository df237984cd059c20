-- For how many microseconds the oldest job that could start has waited; nothing when no job could start.
-- Reads the first few jobs of each priority. Jobs that came back count only if there are no others, because their
-- waiting time is unknown.
local FEW, LEVEL = 5, 281474976710656
local now, fresh, any = time(), nil, nil
for level = 0, 9 do
  local range = { string.format('%.0f', level * LEVEL), string.format('(%.0f', (level + 1) * LEVEL) }
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('ready'), range[1], range[2], 'LIMIT', 0, FEW)) do
    local due = tonumber(string.match(redis.call('HGET', key('jobs'), id) or '', '^%d+ %d+ (%d+)'))
    if due and (not any or due < any) then any = due end
    if due and (not fresh or due < fresh) and not redis.call('HGET', key('meta'), id) then fresh = due end
  end
end
local oldest = fresh or any
local first = redis.call('ZRANGE', key('delayed'), 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= tonumber(now) and (not oldest or tonumber(first[2]) < oldest) then
  oldest = tonumber(first[2])
end
if not oldest then return false end
return string.format('%.0f', math.max(0, now - oldest))
