-- One step of a scan for the lease of one job. ARGV: time, cursor, pattern, about how many leases to read.
-- Returns {next cursor, members and expiries}.
return redis.call('ZSCAN', key('leases'), ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
