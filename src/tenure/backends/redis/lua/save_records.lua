-- Saves records of jobs on another broker. ARGV: time, then for each: id, the record that it replaces or nothing,
-- its "state:queue", the new record, its "state:queue", its moment, its tags and its time of enqueue.
-- Returns the ids whose record has changed since.
local changed = {}
for i = 2, #ARGV, 8 do
  local id, before, old_place, record, place, moment, tags, enqueued = unpack(ARGV, i, i + 7)
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
    if tags ~= '' then
      add_tags(id, tags, enqueued)
      redis.call('HSET', key('tags'), id, tags)
    end
  end
end
return changed
