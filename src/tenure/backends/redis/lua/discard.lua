-- Deletes dead letters. ARGV: time, ids. Returns the ids that were dead.
local gone = {}
for i = 2, #ARGV do
  if redis.call('ZREM', key('dead'), ARGV[i]) == 1 then
    gone[#gone + 1] = ARGV[i]
    drop_tags(ARGV[i], redis.call('HGET', key('jobs'), ARGV[i]))
    for _, name in ipairs({ 'jobs', 'deaths', 'failures' }) do redis.call('HDEL', key(name), ARGV[i]) end
  end
end
if #gone > 0 then tell_ends() end
return gone
