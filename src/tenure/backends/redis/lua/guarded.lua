-- Around a verb that settles: only if the decision about guards still holds and every lease it is for is held.
-- ARGV: as for the verb, but the first is {time, plan}. Answers {'settled', answer}, {'changed'}, or {'lost', indexes}.
local plan = given.plan
if not still_holds(plan) then return { 'changed' } end
local lost = { 'lost' }
for i, member in ipairs(plan.members) do
  if not redis.call('ZSCORE', key('leases'), member) then lost[#lost + 1] = i end
end
if #lost > 1 then return lost end
local answer = verb()
carry_out(plan)
return { 'settled', answer }
