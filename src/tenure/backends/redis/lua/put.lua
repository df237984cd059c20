-- Stores messages whose id is new and whose unique is not used by a job that waits or runs.
-- ARGV: time, n, ids, tails, ranks; n due times when any is not "at once"; n uniques when there are any; n texts of
-- tags when there are any, after due times and uniques.
local n = tonumber(ARGV[2])
local now = time()
local timed, exclusive, tagged = #ARGV > 3 * n + 2, #ARGV > 4 * n + 2, #ARGV > 5 * n + 2
local ids = {}
for i = 1, n do ids[i] = ARGV[i + 2] end
local known = ask('HMGET', key('jobs'), ids)
local seq = redis.call('INCRBY', key('seq'), n) - n
local records, ready, delayed, refused = {}, {}, {}, {}

-- Takes the unique of a message; returns whether it was free.
local function take_unique(i)
  local unique = exclusive and ARGV[4 * n + 2 + i] or ''
  if unique == '' then return true end
  if redis.call('HSETNX', uniques(), unique, ids[i]) == 0 then return false end
  redis.call('HSET', key('unique_of'), ids[i], unique)
  return true
end

for i = 1, n do
  if known[i] or not take_unique(i) then
    refused[#refused + 1] = i
  else
    local place = ARGV[2 * n + 2 + i] + seq + i
    local due = timed and ARGV[3 * n + 2 + i] or now
    if string.sub(due, 1, 1) == '+' then due = later(now, string.sub(due, 2)) end
    records[#records + 1] = ids[i]
    records[#records + 1] = (seq + i) .. ' ' .. now .. ' ' .. due .. ' ' .. ARGV[n + 2 + i]
    if tagged then add_tags(ids[i], ARGV[5 * n + 2 + i], now) end
    if tonumber(due) > tonumber(now) then
      delayed[#delayed + 1] = due
      delayed[#delayed + 1] = string.format('%.0f', place) .. ':' .. ids[i]
    else
      ready[#ready + 1] = place
      ready[#ready + 1] = ids[i]
    end
  end
end

call('HSET', key('jobs'), records)
call('ZADD', key('ready'), ready)
call('ZADD', key('delayed'), delayed)
if #records > 0 then wake() end  -- also for delayed jobs: a waiting worker must learn of an earlier due time
return { seq, refused }
