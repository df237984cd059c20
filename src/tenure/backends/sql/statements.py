"""What people and the janitor ask, in words that every dialect translates.

`:name` is a parameter, `IN :ids` a list of them, `FOR UPDATE` keeps others away where a database has many writers,
`ON CONFLICT DO NOTHING`, at the end, leaves out rows that are there already,
`= (:name)` says that an index is entered in its middle, which MySQL has to be told.
"""

COUNTS_LIVE = """
SELECT queue, 'ready', count(*) FROM tenure_ready GROUP BY queue
UNION ALL SELECT queue, 'delayed', count(*) FROM tenure_delayed GROUP BY queue
UNION ALL SELECT queue, 'parked', count(*) FROM tenure_parked GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*) FROM tenure_lease GROUP BY queue
UNION ALL SELECT queue, 'dead', count(*) FROM tenure_dead GROUP BY queue
"""
COUNTS = f"{COUNTS_LIVE} UNION ALL SELECT queue, state, count(*) FROM tenure_history GROUP BY state, queue"
FIND_LIVE = """
SELECT j.id, j.queue, -j.rank, j.handler, j.name, j.enqueued, j.due, j.body,
       r.key, r.attempts, r.crashes, r.fence,
       d.key, d.attempts, d.crashes, d.fence, d.due,
       l.key, l.attempts, l.crashes, l.fence, l.owner, l.expires, l.asked, l.done, l.total,
       p.key, p.attempts, p.crashes, p.fence, p.guard
FROM tenure_job AS j
LEFT JOIN tenure_ready AS r ON r.queue = j.queue AND r.rank = j.rank AND r.key = j.key
LEFT JOIN tenure_delayed AS d ON d.key = j.key
LEFT JOIN tenure_lease AS l ON l.key = j.key
LEFT JOIN tenure_parked AS p ON p.key = j.key
WHERE j.id = :id
"""
FIND_ENDED = """
SELECT id, queue, -rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished, owner, seconds,
       reason, output, NULL, run FROM tenure_history WHERE id = :id
"""
_DEAD = """
SELECT id, queue, -rank, handler, name, 'dead', attempts, crashes, fence, enqueued, due, died, nullif(owner, ''), NULL,
       reason, NULL, body, NULL FROM tenure_dead
"""
_AFTER = "died >= :died AND (died > :died OR id > :id) ORDER BY died, id LIMIT :limit"
FIND_DEAD = f"{_DEAD} WHERE id = :id"
LIST_DEAD = f"{_DEAD} WHERE {_AFTER}"
LIST_DEAD_OF_QUEUE = f"{_DEAD} WHERE queue = :queue AND {_AFTER}"
FAILURES = "SELECT id, record FROM tenure_failure WHERE id IN :ids ORDER BY id, fence"

DEAD_IDS = "SELECT id FROM tenure_dead WHERE id IN :ids ORDER BY enqueued, id FOR UPDATE"
REPLAY_READY = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
SELECT j.queue, j.rank, j.key, 0, 0, d.fence, 0 FROM tenure_job AS j JOIN tenure_dead AS d ON d.id = j.id
WHERE j.id IN :ids
"""
# No job has an empty queue: a row with one keeps others from putting its id while the transaction lasts.
RESERVE_ID = """
INSERT INTO tenure_job (id, queue, rank, handler, enqueued, due, body) VALUES (:id, '', 0, '', 0, 0, '')
ON CONFLICT DO NOTHING
"""
RESERVED_IDS = "SELECT id FROM tenure_job WHERE id IN :ids AND queue = ''"
RELEASE_IDS = "DELETE FROM tenure_job WHERE id IN :ids AND queue = ''"
BURY = """
INSERT INTO tenure_dead (id, queue, rank, handler, name, attempts, crashes, fence, enqueued, due, died,
                         owner, reason, body)
VALUES (:id, :queue, :rank, :handler, :name, :attempts, 0, 0, :now, :now, :now, '', :reason, :body)
"""
KEEP_FAILURE = "INSERT INTO tenure_failure (id, fence, record) VALUES (:id, 0, :record)"
DROP_DEAD = "DELETE FROM tenure_dead WHERE id IN :ids"
DROP_FAILURES = "DELETE FROM tenure_failure WHERE id IN :ids"
DROP_HISTORY = "DELETE FROM tenure_history WHERE id IN :ids"
# One look at an index for each queue: DISTINCT would read all that there is.
NEXT_QUEUE = "SELECT min(queue) FROM tenure_{table} WHERE {of_state}queue > :after"
OLD_HISTORY = """
SELECT id FROM tenure_history WHERE state = :state AND queue = :queue AND finished < :before
ORDER BY finished LIMIT :limit
"""
OLD_DEAD = "SELECT id FROM tenure_dead WHERE died < :before ORDER BY died LIMIT :limit"
OLD_DEAD_OF_QUEUE = """
SELECT id FROM tenure_dead WHERE queue = :queue AND died < :before ORDER BY died LIMIT :limit
"""

# Where a lease may have gone that was settled without an answer: over, dead, or back in its place.
SETTLED = """
SELECT id, fence FROM tenure_history WHERE id IN :ids AND owner = :owner
UNION ALL SELECT id, fence FROM tenure_dead WHERE id IN :ids AND owner = :owner
UNION ALL SELECT j.id, r.fence FROM tenure_job AS j
    JOIN tenure_ready AS r ON r.queue = j.queue AND r.rank = j.rank AND r.key = j.key WHERE j.id IN :ids
UNION ALL SELECT j.id, d.fence FROM tenure_job AS j JOIN tenure_delayed AS d ON d.key = j.key WHERE j.id IN :ids
UNION ALL SELECT j.id, p.fence FROM tenure_job AS j JOIN tenure_parked AS p ON p.key = j.key WHERE j.id IN :ids
"""

HEADS = "SELECT key, substr(body, 1, 64) FROM tenure_job WHERE key > :after ORDER BY key LIMIT :limit"
KNOWN = """
SELECT id FROM tenure_job WHERE id IN :ids UNION ALL SELECT id FROM tenure_history WHERE id IN :ids
UNION ALL SELECT id FROM tenure_dead WHERE id IN :ids
"""
LIVE = "SELECT key FROM tenure_job WHERE id IN :ids"
READY = """
SELECT j.key, j.id FROM tenure_job AS j
JOIN tenure_ready AS w ON w.queue = j.queue AND w.rank = j.rank AND w.key = j.key WHERE j.id IN :ids FOR UPDATE
"""
DELAYED = """
SELECT j.key, j.id FROM tenure_job AS j JOIN tenure_delayed AS w ON w.key = j.key WHERE j.id IN :ids FOR UPDATE
"""
PARKED = """
SELECT j.key, j.id FROM tenure_job AS j JOIN tenure_parked AS w ON w.key = j.key WHERE j.id IN :ids FOR UPDATE
"""
ENDED = """
SELECT id FROM tenure_history WHERE id IN :ids UNION ALL SELECT id FROM tenure_dead WHERE id IN :ids
"""
LEASED = "SELECT j.id FROM tenure_job AS j JOIN tenure_lease AS l ON l.key = j.key WHERE j.id IN :ids"
ASK = "UPDATE tenure_lease SET asked = 1 WHERE key IN :keys"
ASKED = """
SELECT j.id, l.fence FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key
WHERE l.key IN :keys AND l.asked <> 0
"""
_CANCEL = """
INSERT INTO tenure_history (id, queue, rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished,
                            owner, seconds, reason, output)
SELECT j.id, j.queue, j.rank, j.handler, j.name, 'cancelled', w.attempts, w.crashes, w.fence,
       j.enqueued, j.due, :now, NULL, NULL, :reason, NULL
FROM tenure_job AS j
"""
CANCEL_READY = f"""{_CANCEL}
JOIN tenure_ready AS w ON w.queue = j.queue AND w.rank = j.rank AND w.key = j.key WHERE j.key IN :keys
"""
CANCEL_DELAYED = f"{_CANCEL} JOIN tenure_delayed AS w ON w.key = j.key WHERE j.key IN :keys"
CANCEL_PARKED = f"{_CANCEL} JOIN tenure_parked AS w ON w.key = j.key WHERE j.key IN :keys"
_WAITING = "queue, rank, key, attempts, crashes, fence, suspect"
RESCHEDULE = "UPDATE tenure_job SET due = :due WHERE key IN :keys"
PUT_OFF_DELAYED = "UPDATE tenure_delayed SET due = :due WHERE key IN :keys"
PUT_OFF_PARKED = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_parked WHERE key IN :keys
"""
PUT_OFF_READY = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_ready
WHERE queue = :queue AND rank = :rank AND key IN :keys
"""
BRING_DELAYED = f"INSERT INTO tenure_ready ({_WAITING}) SELECT {_WAITING} FROM tenure_delayed WHERE key IN :keys"
BRING_PARKED = f"INSERT INTO tenure_ready ({_WAITING}) SELECT {_WAITING} FROM tenure_parked WHERE key IN :keys"
PLACES = "SELECT DISTINCT queue, rank FROM tenure_job WHERE key IN :keys"
DROP_READY = "DELETE FROM tenure_ready WHERE queue = :queue AND rank = :rank AND key IN :keys"
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE key IN :keys"
DROP_PARKED = "DELETE FROM tenure_parked WHERE key IN :keys"
DROP_UNLEASED = """
DELETE FROM tenure_job WHERE key IN :keys
    AND NOT EXISTS (SELECT 1 FROM tenure_lease AS l WHERE l.key = tenure_job.key)
"""
NOTE_PROGRESS = """
UPDATE tenure_lease SET done = :done, total = :total WHERE key = :key AND fence = :fence AND owner = :owner
    AND EXISTS (SELECT 1 FROM tenure_job AS j WHERE j.key = tenure_lease.key AND j.id = :id)
"""

JOIN = "INSERT INTO tenure_worker (id, expires, record) VALUES (:id, :expires, :record)"
PART = "DELETE FROM tenure_worker WHERE id = :id"
FORGET = "DELETE FROM tenure_worker WHERE expires <= :now"
WORKERS = "SELECT record FROM tenure_worker WHERE expires > :now"
