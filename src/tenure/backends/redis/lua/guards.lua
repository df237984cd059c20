-- The functions of guards: the states of keys, and the jobs that wait for them, beside the queues of the same prefix.
-- A key and its waiters are in another slot than their queues, so there are no guards on a cluster.
--
--   rows     hash  key -> "expires wake_at waiting known\nstate"
--   expiry   zset  keys with a state, by expiry;  waking  zset  keys with waiters, by the time to try again
--   waiters:KEY    zset  "place\nqueue\nid" by priority and time of enqueue
local prefix = string.match(KEYS[1], '^(.-):{')

local function guards(name) return prefix .. ':{' .. prefix .. '}:guards:' .. name end

local function read_row(raw)
  local expires, wake_at, waiting, known, state = string.match(raw, '^(%d+) (%d+) (%d) (%d)\n(.*)$')
  if not state then return { expires = '0', wake_at = '0', waiting = false, known = false, state = '' } end
  return { expires = expires, wake_at = wake_at, waiting = waiting == '1', known = known == '1', state = state }
end

local function save_row(name, row)
  if not row.known and not row.waiting then
    redis.call('HDEL', guards('rows'), name)
  else
    local flags = (row.waiting and '1 ' or '0 ') .. (row.known and '1' or '0')
    redis.call('HSET', guards('rows'), name, row.expires .. ' ' .. row.wake_at .. ' ' .. flags .. '\n' .. row.state)
  end
  if row.known then
    redis.call('ZADD', guards('expiry'), row.expires, name)
  else
    redis.call('ZREM', guards('expiry'), name)
  end
  if row.waiting then
    redis.call('ZADD', guards('waking'), row.wake_at, name)
  else
    redis.call('ZREM', guards('waking'), name)
  end
end

-- Makes the first `count` waiters of a key ready again, in their place, and lets suspects wait apart; returns how many
-- there were.
local function wake_waiters(name, count)
  local heads = redis.call('ZPOPMIN', guards('waiters:' .. name), count)
  for i = 1, #heads, 2 do
    local place, queue, id = string.match(heads[i], '^(%d+)\n(.-)\n(.*)$')
    local base = prefix .. ':{' .. queue .. '}'
    redis.call('HDEL', base .. ':waits', id)
    if make_ready(base, id, place, redis.call('HGET', base .. ':meta', id))
        and redis.call('EXISTS', base .. ':wake') == 0 then
      redis.call('RPUSH', base .. ':wake', '1')
    end
  end
  return #heads / 2
end

local function waiter(id, place) return place .. '\n' .. string.match(KEYS[1], '^.-:{(.*)}$') .. '\n' .. id end

-- Takes a job from the waiters of its guard, or from the suspects; returns whether it was parked.
local function stop_waiting(id, record)
  local name = redis.call('HGET', key('waits'), id)
  if not name then return false end
  redis.call('HDEL', key('waits'), id)
  if redis.call('ZREM', key('suspects'), id) == 1 then return true end
  redis.call('ZREM', guards('waiters:' .. name), waiter(id, place_of(record)))
  return true
end

-- Whether the rows that a plan was made on are unchanged.
local function is_current(plan)
  for _, read in ipairs(plan.read) do
    if (redis.call('HGET', guards('rows'), read[1]) or '') ~= read[2] then return false end
  end
  return true
end

-- Writes rows. Each write: key, expires, time to try again, state or false, how many waiters to wake, and the time to
-- try again after that.
local function apply(plan)
  for _, write in ipairs(plan.write) do
    local name, expires, wake_at, state, count, again = unpack(write)
    local before = redis.call('HGET', guards('rows'), name)
    local row = { expires = expires, wake_at = wake_at, known = state ~= false, state = state or '' }
    row.waiting = before and read_row(before).waiting
    if row.waiting and count > 0 then
      if wake_waiters(name, count) == 0 then
        row.waiting = false
      elseif tonumber(again) > tonumber(row.wake_at) or plan.due then
        row.wake_at = again
      end
    end
    save_row(name, row)
  end
end
