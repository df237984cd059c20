-- Ends jobs in one state. ARGV: time, state, and packed: lease members, ids, tails of records.
-- Returns index and code of each lease that is not held: code 1 is lost, 2 was settled in exactly this way before.
local state, members, ids, tails = ARGV[2], unpack(cmsgpack.unpack(ARGV[3]))
local now = time()
even_when_full()
local held = ask('ZMSCORE', key('leases'), members)
local start = 'E ' .. now .. ' ' .. state .. '\n'
local ended, records, missing, n = {}, {}, {}, 0

for i = 1, #ids do
  if held[i] then
    n = n + 1
    ended[n] = ids[i]
    records[2 * n - 1] = ids[i]
    records[2 * n] = start .. tails[i]
  else
    local record = redis.call('HGET', key('jobs'), ids[i])
    local same = record and string.sub(record, -#tails[i] - 1) == '\n' .. tails[i]
    missing[#missing + 1] = i
    missing[#missing + 1] = same and 2 or 1
  end
end

if n > 0 then
  call('ZREM', key('leases'), members)
  call('HSET', key('jobs'), records)
  call('RPUSH', key('ended:' .. state), ended)
  if redis.call('EXISTS', key('unique_of')) == 1 then
    for _, id in ipairs(ended) do free_unique(id) end
  end
  if redis.call('EXISTS', key('meta'), key('asked'), key('progress')) > 0 then
    call('HDEL', key('meta'), ended)
    call('SREM', key('asked'), ended)
    call('HDEL', key('progress'), ended)
  end
  tell_ends()
end
return missing
