-- One step of a scan of the messages that have not ended. ARGV: time, cursor, about how many, how many bytes of each.
-- Returns {next cursor, first bytes of bodies}.
local cursor, found = unpack(redis.call('HSCAN', key('jobs'), ARGV[2], 'COUNT', ARGV[3]))
local heads = {}
for i = 1, #found, 2 do
  local record = found[i + 1]
  if string.sub(record, 1, 1) ~= 'E' and not redis.call('ZSCORE', key('dead'), found[i]) then
    local line = string.find(record, '\n', 1, true)
    heads[#heads + 1] = string.sub(record, line + 1, line + ARGV[4])
  end
end
return { cursor, heads }
