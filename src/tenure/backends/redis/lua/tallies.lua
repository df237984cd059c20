-- What workers counted. ARGV: time, first slot, the slot before which to end, "every" or "loose", limit or -1.
-- Loose are those that were not added up: their field ends with the name of a worker. Answers fields and records.
local answer, limit = {}, tonumber(ARGV[5])
for _, field in ipairs(redis.call('ZRANGEBYSCORE', key('slots'), ARGV[2], '(' .. ARGV[3])) do
  if ARGV[4] == 'every' or string.sub(field, -4) ~= ',""]' then
    answer[#answer + 1] = field
    answer[#answer + 1] = redis.call('HGET', key('records'), field)
    if #answer == 2 * limit then break end
  end
end
return answer
