-- Which jobs have ended. ARGV: time, ids. Returns for each id 0 if this queue does not know it, 1 if it has not ended,
-- 2 if it has.
local answers = {}
for i = 2, #ARGV do
  local record = redis.call('HGET', key('jobs'), ARGV[i])
  if not record then
    answers[i - 1] = 0
  elseif string.sub(record, 1, 1) == 'E' or redis.call('ZSCORE', key('dead'), ARGV[i]) then
    answers[i - 1] = 2
  else
    answers[i - 1] = 1
  end
end
return answers
