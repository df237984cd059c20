-- Grants up to a limit of leases. ARGV: time, owner, microseconds, limit, whether the caller took a wake-up.
-- Returns {time, ids and places, metas, records}, or {time, next due time} when no job is ready.
local now, owner, limit = time(), ARGV[2], tonumber(ARGV[4])
even_when_full()

local due = redis.call('ZRANGEBYSCORE', key('delayed'), '-inf', now, 'LIMIT', 0, 1000)
if #due > 0 then
  local ready, ids, metas = {}, {}, {}
  for i, member in ipairs(due) do
    local place, id = string.match(member, '^(%d+):(.*)$')
    ids[i] = id or member
    ready[2 * i - 1], ready[2 * i] = place or '0', ids[i]
  end
  if redis.call('EXISTS', key('meta')) == 1 then metas = ask('HMGET', key('meta'), ids) end
  for i = #ids, 1, -1 do
    if is_suspect(metas[i]) then
      make_ready(KEYS[1], ids[i], ready[2 * i - 1], metas[i])
      table.remove(ready, 2 * i)
      table.remove(ready, 2 * i - 1)
    end
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
local metas = redis.call('EXISTS', key('meta')) == 1 and ask('HMGET', key('meta'), ids) or {}

local expires, members = later(now, ARGV[3]), {}
for i = 1, #ids do
  local _, _, fence = split(metas[i])
  members[2 * i - 1] = expires
  members[2 * i] = ids[i] .. ':' .. owner .. ':' .. (fence + 1) .. ':' .. popped[2 * i]
end
call('ZADD', key('leases'), members)
if (ARGV[5] == '1' or #due > 0) and redis.call('EXISTS', key('ready')) == 1 then wake() end
return { now, popped, metas, ask('HMGET', key('jobs'), ids) }
