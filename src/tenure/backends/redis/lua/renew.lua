-- Extends leases. ARGV: time, microseconds, members. Returns the indexes of those that are not held.
local expires, members, held, missing = later(time(), ARGV[2]), {}, {}, {}
for i = 3, #ARGV do members[i - 2] = ARGV[i] end
for i, score in ipairs(ask('ZMSCORE', key('leases'), members)) do
  if score then
    held[#held + 1] = expires
    held[#held + 1] = members[i]
  else
    missing[#missing + 1] = i
  end
end
even_when_full()
call('ZADD', key('leases'), held)
return missing
