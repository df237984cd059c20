-- Runs a settlement script, only if the decision about guards is still current and all its leases are held.
-- ARGV: as for that script, but the first is {time, plan}.
-- Returns {'settled', answer}, {'changed'} or {'lost', indexes}.
local plan = given.plan
if not is_current(plan) then return { 'changed' } end
local lost = { 'lost' }
for i, member in ipairs(plan.members) do
  if not redis.call('ZSCORE', key('leases'), member) then lost[#lost + 1] = i end
end
if #lost > 1 then return lost end
local answer = verb()
apply(plan)
return { 'settled', answer }
