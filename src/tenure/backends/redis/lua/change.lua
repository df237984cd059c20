-- Carries a decision about guards out if it still holds. ARGV: time, plan. Answers whether it did.
even_when_full()
local plan = cjson.decode(ARGV[2])
if not still_holds(plan) then return 0 end
carry_out(plan)
return 1
