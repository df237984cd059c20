-- The rows of guards. ARGV: time, keys. Returns {time, rows}.
local names = {}
for i = 2, #ARGV do names[i - 1] = ARGV[i] end
return { time(), ask('HMGET', guards('rows'), names) }
