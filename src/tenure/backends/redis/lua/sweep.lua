-- Deletes expired states without waiters. ARGV: time, limit. Returns how many.
local swept = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', guards('expiry'), '-inf', time(), 'LIMIT', 0, ARGV[2])) do
  local row = read_row(redis.call('HGET', guards('rows'), name))
  if row.waiting then
    redis.call('ZREM', guards('expiry'), name)  -- the script that wakes the waiters needs it, and writes it again
  else
    row.known = false
    save_row(name, row)
    swept = swept + 1
  end
end
return swept
