-- Forgets states that have expired and that nobody waits for. ARGV: time, limit. Answers how many.
local swept = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', guards('expiry'), '-inf', time(), 'LIMIT', 0, ARGV[2])) do
  local row = read_row(redis.call('HGET', guards('rows'), name))
  if row.waiting then
    redis.call('ZREM', guards('expiry'), name)  -- whoever wakes the waiters needs it, and writes it again
  else
    row.known = false
    keep_row(name, row)
    swept = swept + 1
  end
end
return swept
