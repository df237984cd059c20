-- Saves records of jobs on another broker. ARGV: time, then for each: id, the record that it replaces or nothing,
-- its "state:queue", the new record, its "state:queue" and its moment. Returns the ids whose record has changed since.
local changed = {}
for i = 2, #ARGV, 6 do
  local id, before, old_place, record, place, moment = unpack(ARGV, i, i + 5)
  if (redis.call('HGET', key('jobs'), id) or '') ~= before then
    changed[#changed + 1] = id
  else
    if old_place ~= '' and old_place ~= place then
      redis.call('ZREM', key('of:' .. old_place), id)
      if redis.call('EXISTS', key('of:' .. old_place)) == 0 then redis.call('SREM', key('places'), old_place) end
    end
    redis.call('HSET', key('jobs'), id, record)
    redis.call('ZADD', key('of:' .. place), moment, id)
    redis.call('SADD', key('places'), place)
  end
end
return changed
