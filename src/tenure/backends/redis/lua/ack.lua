-- Ends jobs in one state. ARGV: time, state, n, lease members, ids, tails of records.
-- Returns index and code of each lease that is not held: code 1 is lost, 2 was settled in exactly this way before.
local state, n = ARGV[2], tonumber(ARGV[3])
local now = time()
even_when_full()
local members, ids, records, missing = {}, {}, {}, {}
for i = 1, n do members[i] = ARGV[i + 3] end
local held = ask('ZMSCORE', key('leases'), members)
local start = 'E ' .. now .. ' ' .. state .. '\n'

for i = 1, n do
  local id, tail = ARGV[n + 3 + i], ARGV[2 * n + 3 + i]
  if held[i] then
    ids[#ids + 1] = id
    records[#records + 1] = id
    records[#records + 1] = start .. tail
  else
    local record = redis.call('HGET', key('jobs'), id)
    local same = record and string.sub(record, -#tail - 1) == '\n' .. tail
    missing[#missing + 1] = i
    missing[#missing + 1] = same and 2 or 1
  end
end

if #ids > 0 then
  call('ZREM', key('leases'), members)
  call('HSET', key('jobs'), records)
  call('RPUSH', key('ended:' .. state), ids)
  if redis.call('EXISTS', key('unique_of')) == 1 then
    for _, id in ipairs(ids) do free_unique(id) end
  end
  if redis.call('EXISTS', key('meta'), key('asked'), key('progress')) > 0 then
    call('HDEL', key('meta'), ids)
    call('SREM', key('asked'), ids)
    call('HDEL', key('progress'), ids)
  end
end
return missing
