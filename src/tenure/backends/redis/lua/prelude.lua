-- The start of every script. KEYS[1] is the queue's name in its hash tag; every key of the queue starts with it.
--
--   jobs      hash  id -> record: "seq enqueued due priority labels\nbody" while it waits, runs or is dead,
--                         "E finished state\nhead\noutcome" once it has ended
--   ready     zset  id by place, which is (9 - priority) * 2^48 + seq
--   delayed   zset  "place:id" by due time
--   leases    zset  "id:owner:fence:place" by expiry: the script that can remove the member held the lease
--   meta      hash  id -> "attempts crashes fence vanished", for jobs that were leased before; vanished is -1 for a
--                         suspect
--   failures  hash  id -> a line of JSON for each
--   deaths    hash  id -> outcome;  dead  zset  id by time of death
--   ended:*   list  of ids, oldest first
--   tag:*     zset  id by time of enqueue, for each tag
--   unique_of hash  id -> unique of jobs that wait or run; the hash `uniques` of all queues maps unique -> id
--   waits     hash  id -> guard that a parked job waits for: see guards.lua
--   suspects  zset  id by place: parked jobs that are leased alone; their guard in waits is "suspect:" and the queue
--   asked, progress, wake, seq
--
-- ARGV[1] is the time in microseconds; only tests give one.
local function key(name) return KEYS[1] .. ':' .. name end

local function time()
  if ARGV[1] ~= '' then return ARGV[1] end
  local t = redis.call('TIME')
  return t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end

local function later(now, microseconds) return string.format('%.0f', now + microseconds) end

-- A server that is out of memory refuses writes that may need memory, but only as the first write of a script. So every
-- script that moves or ends jobs starts with this write, and workers can still drain a full server.
local function even_when_full() redis.call('DEL', key('nothing')) end

-- Lua can unpack about 8000 values.
local SLICE = 4000

local function call(command, name, list)
  for first = 1, #list, SLICE do
    redis.call(command, name, unpack(list, first, math.min(first + SLICE - 1, #list)))
  end
end

local function ask(command, name, list)
  if #list <= SLICE then return #list == 0 and {} or redis.call(command, name, unpack(list)) end
  local answers = {}
  for first = 1, #list, SLICE do
    for _, answer in ipairs(redis.call(command, name, unpack(list, first, math.min(first + SLICE - 1, #list)))) do
      answers[#answers + 1] = answer
    end
  end
  return answers
end

-- The list has one token at most: a claim that takes it and leaves work behind puts it back.
local function wake()
  if redis.call('EXISTS', key('wake')) == 0 then redis.call('RPUSH', key('wake'), '1') end
end

-- Other programs may write into these keys. No script fails over a value that it cannot read: an error would end it
-- halfway, and jobs would be lost. The worker that leases such a job makes it a dead letter.
local function place_of(record)
  local seq, priority = string.match(record, '^(%d+) %d+ %d+ (%d+)')
  return string.format('%.0f', (9 - (priority or 5)) * 281474976710656 + (seq or 0))
end

local function split(meta)
  if not meta or #meta > 32 then return 0, 0, 0, 0 end
  local attempts, crashes, fence, vanished = string.match(meta, '^(%d+) (%d+) (%d+) (%-?%d+)$')
  if not fence or #fence > 9 or #vanished > 9 then return 0, 0, 0, 0 end
  return tonumber(attempts), tonumber(crashes), tonumber(fence), tonumber(vanished)
end

local SUSPECT = -1 -- as in messages.py

local function is_suspect(meta) return meta and string.sub(meta, -2) == '-1' end

-- Makes a job of a queue, whose keys start with `base`, ready in its place; a suspect waits apart. Returns whether it is
-- ready.
local function make_ready(base, id, place, meta)
  if is_suspect(meta) then
    redis.call('ZADD', base .. ':suspects', place, id)
    redis.call('HSET', base .. ':waits', id, 'suspect:' .. string.match(base, '^.-:{(.*)}$'))
    return false
  end
  redis.call('ZADD', base .. ':ready', place, id)
  return true
end

local KEPT_FAILURES = 25 -- as in messages.py

local function save_failure(id, failure)
  local lines = (redis.call('HGET', key('failures'), id) or '') .. failure .. '\n'
  local _, count = string.gsub(lines, '\n', '\n')
  for _ = KEPT_FAILURES + 1, count do lines = string.sub(lines, string.find(lines, '\n', 1, true) + 1) end
  redis.call('HSET', key('failures'), id, lines)
end

-- The hash of all queues; there is none on a cluster.
local function uniques()
  local prefix = string.match(KEYS[1], '^(.-):{')
  return prefix .. ':{' .. prefix .. '}:uniques'
end

local function free_unique(id)
  local unique = redis.call('HGET', key('unique_of'), id)
  if not unique then return end
  redis.call('HDEL', uniques(), unique)
  redis.call('HDEL', key('unique_of'), id)
end

-- Tells apps that wait for the ends of jobs. It takes 0.7 us where no app waits. A user that may not publish ends jobs
-- nevertheless, and apps find that out later. Every server of a cluster would get the message: there it is not sent.
local function tell_ends()
  if TELLS_ENDS then redis.pcall('PUBLISH', string.match(KEYS[1], '^(.-):{') .. ':ended', '') end
end

-- Ends a job that a user cancelled: its body is deleted, its record is kept.
local function end_cancelled(id, record, now, attempts, crashes, fence)
  local head = string.match(record or '', '^[^\n]*')
  local outcome = string.format('[%d,%d,%d,null,null,"cancelled on request",null]', attempts, crashes, fence)
  redis.call('HSET', key('jobs'), id, 'E ' .. now .. ' cancelled\n' .. head .. '\n' .. outcome)
  redis.call('RPUSH', key('ended:cancelled'), id)
  redis.call('HDEL', key('meta'), id)
  free_unique(id)
  tell_ends()
end

-- Adds a job to the index of each of its tags, which are one text with commas.
local function add_tags(id, tags, enqueued)
  for tag in string.gmatch(tags, '[^,]+') do redis.call('ZADD', key('tag:' .. tag), enqueued, id) end
end

-- Removes a job that is deleted from the index of its tags. They are the last label of its record, an array in an array.
local function drop_tags(id, record)
  local head = string.match(record or '', '^E[^\n]*\n([^\n]*)') or string.match(record or '', '^[^\n]*')
  if string.sub(head, -2) ~= ']]' then return end
  local ok, labels = pcall(cjson.decode, string.match(head, '^%d+ %d+ %d+ %d+ (.*)$'))
  if not ok or type(labels) ~= 'table' or type(labels[3]) ~= 'table' then return end
  for _, tag in ipairs(labels[3]) do redis.call('ZREM', key('tag:' .. tostring(tag)), id) end
end

-- Deletes what was stored for a lease; returns whether a user cancelled the job.
local function forget_lease(id)
  redis.call('HDEL', key('progress'), id)
  return redis.call('SREM', key('asked'), id) == 1
end
