-- Applies a decision about guards if the rows that it was made on are unchanged. ARGV: time, plan.
-- Returns 1 if it was applied, else 0.
even_when_full()
local plan = cjson.decode(ARGV[2])
if not is_current(plan) then return 0 end
apply(plan)
return 1
