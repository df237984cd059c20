-- Ticks that have been in one of these open states since before a time.
-- ARGV: time, states, before, limit. Returns id and value of each.
local limit, found, first, page = tonumber(ARGV[4]), {}, 0, 500
while #found < 2 * limit do
  local ids = redis.call('ZRANGEBYSCORE', key('open'), '-inf', '(' .. ARGV[3], 'LIMIT', first, page)
  for position, value in ipairs(ask('HMGET', key('ticks'), ids)) do
    if value and #found < 2 * limit and string.find(ARGV[2], ' ' .. string.match(value, '^%l+') .. ' ', 1, true) then
      found[#found + 1] = ids[position]
      found[#found + 1] = value
    end
  end
  if #ids < page then break end
  first = first + page
end
return found
