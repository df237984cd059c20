-- The newest ticks of a schedule. ARGV: time, schedule, states, limit. Returns id and value of each.
local limit, found, first, page = tonumber(ARGV[4]), {}, 0, 200
while #found < 2 * limit do
  local ids = redis.call('ZREVRANGE', key('of:' .. ARGV[2]), first, first + page - 1)
  for position, value in ipairs(ask('HMGET', key('ticks'), ids)) do
    if value and #found < 2 * limit and string.find(ARGV[3], ' ' .. string.match(value, '^%l+') .. ' ', 1, true) then
      found[#found + 1] = ids[position]
      found[#found + 1] = value
    end
  end
  if #ids < page then break end
  first = first + page
end
return found
