-- Grants up to a limit of leases. ARGV: time, owner, microseconds, limit, whether a suspect may be granted,
-- whether the caller took a wake-up. Returns {time, ids and places, metas, records, whether a suspect was met},
-- or {time, next due time} when no job is ready.
local now, owner, limit = time(), ARGV[2], tonumber(ARGV[4])
even_when_full()

local due = redis.call('ZRANGEBYSCORE', key('delayed'), '-inf', now, 'LIMIT', 0, 1000)
if #due > 0 then
  local ready = {}
  for _, member in ipairs(due) do
    local place, id = string.match(member, '^(%d+):(.*)$')
    ready[#ready + 1] = place or '0'
    ready[#ready + 1] = id or member
  end
  call('ZADD', key('ready'), ready)
  call('ZREM', key('delayed'), due)
end

local popped = redis.call('ZPOPMIN', key('ready'), limit)
if #popped == 0 then
  return { now, redis.call('ZRANGE', key('delayed'), 0, 0, 'WITHSCORES')[2] or '' }
end

local ids = {}
for i = 1, #popped, 2 do
  ids[#ids + 1] = popped[i]
  if not string.match(popped[i + 1], '^%d+$') then popped[i + 1] = '0' end
end
local metas, met_suspect = {}, 0
if redis.call('EXISTS', key('meta')) == 1 then
  metas = ask('HMGET', key('meta'), ids)
  local kept = #ids
  for i = 1, #ids do
    if metas[i] and string.sub(metas[i], -1) == '1' then
      kept = (i == 1 and ARGV[5] == '1') and 1 or i - 1
      met_suspect = 1
      break
    end
  end
  local back = {}
  for i = #ids, kept + 1, -1 do
    back[#back + 1] = popped[2 * i]
    back[#back + 1] = ids[i]
    ids[i], metas[i], popped[2 * i], popped[2 * i - 1] = nil, nil, nil, nil
  end
  call('ZADD', key('ready'), back)
end

local expires, members = later(now, ARGV[3]), {}
for i = 1, #ids do
  local _, _, fence = split(metas[i])
  members[2 * i - 1] = expires
  members[2 * i] = ids[i] .. ':' .. owner .. ':' .. (fence + 1) .. ':' .. popped[2 * i]
end
call('ZADD', key('leases'), members)
if (ARGV[6] == '1' or #due > 0) and redis.call('EXISTS', key('ready')) == 1 then wake() end
return { now, popped, metas, ask('HMGET', key('jobs'), ids), met_suspect }
