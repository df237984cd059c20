-- What every verb begins with. KEYS[1] is the queue's name in its hash tag; every key of the queue starts with it.
--
--   jobs      hash  id -> record: "seq enqueued due priority labels\nbody" while it lives or lies dead,
--                         "E finished state\nhead\noutcome" once it has ended
--   ready     zset  id by place, which is (9 - priority) * 2^48 + seq
--   delayed   zset  "place:id" by due time
--   leases    zset  "id:owner:fence:place" by expiry: whoever can remove the member held the lease
--   meta      hash  id -> "attempts crashes fence suspect", for jobs that were leased before
--   failures  hash  id -> a line of JSON for each
--   deaths    hash  id -> outcome;  dead  zset  id by time of death
--   ended:*   list  of ids, oldest first
--   unique_of hash  id -> unique of jobs that wait or run; the hash the other way round is that of all queues
--   waits     hash  id -> guard for which a parked job waits: see guards.lua
--   asked, progress, wake, seq
--
-- ARGV[1] is the time in microseconds, given by tests only.
local function key(name) return KEYS[1] .. ':' .. name end

local function time()
  if ARGV[1] ~= '' then return ARGV[1] end
  local t = redis.call('TIME')
  return t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end

local function later(now, microseconds) return string.format('%.0f', now + microseconds) end

-- A server that is out of memory refuses what may grow, but only as the first write of a script. Whatever moves or ends
-- jobs begins with this write, so that a full server can still be drained.
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

-- One token at most: who takes it and leaves work behind puts it back.
local function wake()
  if redis.call('EXISTS', key('wake')) == 0 then redis.call('RPUSH', key('wake'), '1') end
end

local function place_of(record)
  local seq, priority = string.match(record, '^(%d+) %d+ %d+ (%d+)')
  return string.format('%.0f', (9 - priority) * 281474976710656 + seq)
end

local function split(meta)
  if not meta then return 0, 0, 0, false end
  local attempts, crashes, fence, suspect = string.match(meta, '^(%d+) (%d+) (%d+) (%d)$')
  return tonumber(attempts), tonumber(crashes), tonumber(fence), suspect == '1'
end

local MAX_FAILURES = 25

local function keep_failure(id, failure)
  local lines = (redis.call('HGET', key('failures'), id) or '') .. failure .. '\n'
  local _, count = string.gsub(lines, '\n', '\n')
  for _ = MAX_FAILURES + 1, count do lines = string.sub(lines, string.find(lines, '\n', 1, true) + 1) end
  redis.call('HSET', key('failures'), id, lines)
end

-- Of all queues, so not on a cluster.
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

-- The end of a job that somebody cancelled: the body goes, the rest is remembered.
local function end_cancelled(id, record, now, attempts, crashes, fence)
  local head = string.match(record, '^[^\n]*')
  local outcome = string.format('[%d,%d,%d,null,null,"cancelled on request",null]', attempts, crashes, fence)
  redis.call('HSET', key('jobs'), id, 'E ' .. now .. ' cancelled\n' .. head .. '\n' .. outcome)
  redis.call('RPUSH', key('ended:cancelled'), id)
  redis.call('HDEL', key('meta'), id)
  free_unique(id)
end

-- Whether this job, which is held no longer, was asked to stop; what was kept for its lease goes.
local function forget_lease(id)
  redis.call('HDEL', key('progress'), id)
  return redis.call('SREM', key('asked'), id) == 1
end
