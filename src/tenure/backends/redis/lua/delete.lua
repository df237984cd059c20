-- Deletes jobs that have ended, but no dead letters. ARGV: time, ids. Returns the ids that had ended.
local gone, of_state = {}, {}
even_when_full()
for i = 2, #ARGV do
  local record = redis.call('HGET', key('jobs'), ARGV[i])
  local state = record and string.match(record, '^E %d+ (%a+)')
  if state then
    gone[#gone + 1] = ARGV[i]
    of_state[state] = of_state[state] or {}
    of_state[state][ARGV[i]] = true
    drop_tags(ARGV[i], record)
    redis.call('HDEL', key('jobs'), ARGV[i])
    redis.call('HDEL', key('failures'), ARGV[i])
  end
end

-- Each list of ended jobs is read once, however many of its jobs are deleted.
for state, ids in pairs(of_state) do
  local list, rest = key('ended:' .. state), key('rest')
  local length = redis.call('LLEN', list)
  redis.call('DEL', rest)
  for first = 0, length - 1, SLICE do
    local kept = {}
    for _, id in ipairs(redis.call('LRANGE', list, first, first + SLICE - 1)) do
      if not ids[id] then kept[#kept + 1] = id end
    end
    call('RPUSH', rest, kept)
  end
  redis.call('DEL', list)
  if redis.call('EXISTS', rest) == 1 then redis.call('RENAME', rest, list) end
end
return gone
