-- Which of these leases are held and have a request to cancel. ARGV: time, then member and id of each.
-- Returns their indexes.
local found = {}
if redis.call('EXISTS', key('asked')) == 0 then return found end
for i = 2, #ARGV, 2 do
  if redis.call('SISMEMBER', key('asked'), ARGV[i + 1]) == 1 and redis.call('ZSCORE', key('leases'), ARGV[i]) then
    found[#found + 1] = i / 2
  end
end
return found
