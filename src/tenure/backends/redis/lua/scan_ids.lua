-- A step of a scan for ids that match a pattern. ARGV: time, cursor, pattern, how many ids to compare.
-- Returns the next cursor, "0" after the last step, and the ids.
local found = redis.call('HSCAN', key('jobs'), ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
local ids = {}
for i = 1, #found[2], 2 do ids[#ids + 1] = found[2][i] end
return { found[1], ids }
