-- The tallies of a range of slots. ARGV: time, first slot, the slot after the last, "every" or "unfolded", limit or -1.
-- The field of an unfolded tally ends with the name of a worker. Returns fields and records.
local answer, limit = {}, tonumber(ARGV[5])
for _, field in ipairs(redis.call('ZRANGEBYSCORE', key('slots'), ARGV[2], '(' .. ARGV[3])) do
  if ARGV[4] == 'every' or string.sub(field, -4) ~= ',""]' then
    answer[#answer + 1] = field
    answer[#answer + 1] = redis.call('HGET', key('records'), field)
    if #answer == 2 * limit then break end
  end
end
return answer
