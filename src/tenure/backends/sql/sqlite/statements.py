"""What the algorithm says in SQLite's words.

sqlite3 releases the GIL once a step, and taking it back from a busy thread costs up to a switch interval,
so every statement is a single step: batches go in as one JSON text and come back as one row.
"""

NEXT_KEY = "SELECT max(:now, coalesce(max(key) + 1, 0)) FROM tenure_job"
PUT_JOB = """
INSERT OR IGNORE INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE NOT EXISTS (SELECT 1 FROM tenure_history WHERE id = ?2) AND NOT EXISTS (SELECT 1 FROM tenure_dead WHERE id = ?2)
"""
PUT_READY = """
INSERT INTO tenure_ready SELECT queue, rank, key, 0, 0, 0, 0 FROM tenure_job WHERE key >= :first AND due <= :now
"""
PUT_DELAYED = """
INSERT INTO tenure_delayed SELECT key, queue, rank, 0, 0, 0, 0, due FROM tenure_job WHERE key >= :first AND due > :now
"""
PUT_IDS = "SELECT id FROM tenure_job WHERE key >= :first ORDER BY key"

ANY_READY = """
SELECT EXISTS (SELECT 1 FROM tenure_ready WHERE queue = :queue)
    OR EXISTS (SELECT 1 FROM tenure_delayed WHERE queue = :queue AND due <= :now)
"""
NEXT_DUE = "SELECT min(due) FROM tenure_delayed WHERE queue = :queue"
PROMOTE = """
INSERT INTO tenure_ready SELECT queue, rank, key, attempts, crashes, fence, suspect
FROM tenure_delayed WHERE queue = :queue AND due <= :now ORDER BY due, key LIMIT :most
"""
PROMOTED = """
DELETE FROM tenure_delayed WHERE key IN (
    SELECT key FROM tenure_delayed WHERE queue = :queue AND due <= :now ORDER BY due, key LIMIT :most
)
"""

CLAIM = """
SELECT json_group_array(json_array(key, id, rank, attempts, crashes, fence + 1, suspect, due, length(body))),
       CAST(group_concat(CAST(body AS TEXT), '') AS BLOB),
       EXISTS (SELECT 1 FROM tenure_delayed WHERE queue = :queue AND due <= :now)
FROM (
    SELECT r.key, j.id, r.rank, r.attempts, r.crashes, r.fence, r.suspect, j.due, j.body
    FROM tenure_ready AS r JOIN tenure_job AS j ON j.key = r.key
    WHERE r.queue = :queue ORDER BY r.rank, r.key LIMIT :limit
)
"""
GRANT = """
INSERT INTO tenure_lease
SELECT key, queue, rank, attempts, crashes, fence + 1, suspect, :owner, :expires, 0, NULL, NULL
FROM tenure_ready WHERE queue = :queue AND (rank, key) <= (:rank, :key)
"""
GRANTED = "DELETE FROM tenure_ready WHERE queue = :queue AND (rank, key) <= (:rank, :key)"

HELD = """
SELECT json_group_array(json_array(j.id, l.fence)), json_group_array(l.key) FILTER (WHERE l.asked)
FROM json_each(:keys) AS e JOIN tenure_lease AS l ON l.key = e.value JOIN tenure_job AS j ON j.key = l.key
WHERE l.owner = :owner
"""
ARCHIVE = """
INSERT OR REPLACE INTO tenure_history
SELECT j.id, l.queue, l.rank, j.handler, j.name, e.value ->> 1, l.attempts, l.crashes, l.fence,
       j.enqueued, j.due, :now, l.owner, e.value ->> 2, e.value ->> 3, e.value ->> 4
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 JOIN tenure_job AS j ON j.key = l.key
"""
BURY = """
INSERT OR REPLACE INTO tenure_dead
SELECT j.id, l.queue, l.rank, j.handler, j.name, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence,
       j.enqueued, j.due, :now, l.owner, e.value ->> 1, j.body
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 JOIN tenure_job AS j ON j.key = l.key
"""
RETURN_READY = """
INSERT INTO tenure_ready
SELECT l.queue, l.rank, l.key, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 WHERE e.value ->> 1 <= :now
"""
RETURN_DELAYED = """
INSERT INTO tenure_delayed
SELECT l.key, l.queue, l.rank, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4,
       e.value ->> 1
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 WHERE e.value ->> 1 > :now
"""
KEEP_FAILURES = """
INSERT OR REPLACE INTO tenure_failure
SELECT e.value ->> 0, e.value ->> 1, e.value -> 2 FROM json_each(:items) AS e
"""
TRIM_FAILURES = """
DELETE FROM tenure_failure WHERE (id, fence) IN (
    SELECT f.id, f.fence FROM json_each(:items) AS e JOIN tenure_failure AS f ON f.id = e.value ->> 0
    WHERE e.value ->> 1 > :keep AND f.fence <= (
        SELECT fence FROM tenure_failure WHERE id = f.id ORDER BY fence DESC LIMIT 1 OFFSET :keep
    )
)
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE key IN (SELECT value FROM json_each(:keys))"
DROP_JOBS = "DELETE FROM tenure_job WHERE key IN (SELECT value FROM json_each(:keys))"
RENEW = "UPDATE tenure_lease SET expires = :expires WHERE key IN (SELECT value FROM json_each(:keys))"

EXPIRED = """
SELECT json_group_array(json_array(key, id, suspect)), json_group_array(key) FILTER (WHERE asked) FROM (
    SELECT l.key, j.id, l.suspect, l.asked FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key
    WHERE l.queue = :queue AND l.expires <= :now ORDER BY l.expires LIMIT :limit
)
"""
RETURN_EXPIRED = """
INSERT INTO tenure_ready
SELECT queue, rank, key, attempts, crashes + suspect, fence, 1
FROM tenure_lease WHERE key IN (SELECT value FROM json_each(:keys))
"""

CANCELLABLE = """
SELECT j.id, j.key, l.key IS NOT NULL
FROM json_each(:ids) AS e JOIN tenure_job AS j ON j.id = e.value LEFT JOIN tenure_lease AS l ON l.key = j.key
"""
ENDED_IDS = """
SELECT id FROM tenure_history WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL SELECT id FROM tenure_dead WHERE id IN (SELECT value FROM json_each(:ids))
"""
_CANCEL = """
INSERT OR REPLACE INTO tenure_history
SELECT j.id, j.queue, j.rank, j.handler, j.name, 'cancelled', w.attempts, w.crashes, w.fence,
       j.enqueued, j.due, :now, NULL, NULL, :reason, NULL
FROM json_each(:keys) AS e JOIN tenure_job AS j ON j.key = e.value
"""
CANCEL_READY = f"{_CANCEL} JOIN tenure_ready AS w ON w.queue = j.queue AND w.rank = j.rank AND w.key = j.key"
CANCEL_DELAYED = f"{_CANCEL} JOIN tenure_delayed AS w ON w.key = j.key"
DROP_READY = """
DELETE FROM tenure_ready WHERE (queue, rank, key) IN (
    SELECT j.queue, j.rank, j.key FROM json_each(:keys) AS e JOIN tenure_job AS j ON j.key = e.value
)
"""
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE key IN (SELECT value FROM json_each(:keys))"
DROP_UNLEASED = """
DELETE FROM tenure_job WHERE key IN (SELECT value FROM json_each(:keys))
    AND NOT EXISTS (SELECT 1 FROM tenure_lease AS l WHERE l.key = tenure_job.key)
"""
ASK = "UPDATE tenure_lease SET asked = 1 WHERE key IN (SELECT value FROM json_each(:keys))"
ASKED = """
SELECT j.id, l.fence FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key WHERE l.owner = :owner AND l.asked
"""
NOTE_PROGRESS = """
UPDATE tenure_lease SET done = e.value ->> 2, total = e.value ->> 3
FROM json_each(:items) AS e JOIN tenure_job AS j ON j.id = e.value ->> 0
WHERE tenure_lease.key = j.key AND tenure_lease.fence = e.value ->> 1 AND tenure_lease.owner = :owner
"""

COUNTS = """
SELECT queue, 'ready', count(*) FROM tenure_ready GROUP BY queue
UNION ALL SELECT queue, 'delayed', count(*) FROM tenure_delayed GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*) FROM tenure_lease GROUP BY queue
UNION ALL SELECT queue, 'dead', count(*) FROM tenure_dead GROUP BY queue
UNION ALL SELECT queue, state, count(*) FROM tenure_history GROUP BY state, queue
"""
FIND_LIVE = """
SELECT j.id, j.queue, -j.rank, j.handler, j.name, j.enqueued, j.due, j.body,
       r.key, r.attempts, r.crashes, r.fence,
       d.key, d.attempts, d.crashes, d.fence, d.due,
       l.key, l.attempts, l.crashes, l.fence, l.owner, l.expires, l.asked, l.done, l.total
FROM tenure_job AS j
LEFT JOIN tenure_ready AS r ON r.queue = j.queue AND r.rank = j.rank AND r.key = j.key
LEFT JOIN tenure_delayed AS d ON d.key = j.key
LEFT JOIN tenure_lease AS l ON l.key = j.key
WHERE j.id = :id
"""
FIND_ENDED = """
SELECT id, queue, -rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished, owner, seconds,
       reason, output, NULL FROM tenure_history WHERE id = :id
"""
_DEAD = """
SELECT id, queue, -rank, handler, name, 'dead', attempts, crashes, fence, enqueued, due, died, owner, NULL,
       reason, NULL, body FROM tenure_dead
"""
FIND_DEAD = f"{_DEAD} WHERE id = :id"
LIST_DEAD = f"{_DEAD} WHERE (died, id) > (:died, :id) ORDER BY died, id LIMIT :limit"
LIST_DEAD_OF_QUEUE = f"{_DEAD} WHERE queue = :queue AND (died, id) > (:died, :id) ORDER BY died, id LIMIT :limit"
FAILURES = "SELECT record FROM tenure_failure WHERE id = :id ORDER BY fence"

DEAD_IDS = "SELECT id FROM tenure_dead WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY enqueued, id"
REPLAY_JOBS = """
INSERT INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body)
SELECT :first + e.key, d.id, d.queue, d.rank, d.handler, d.name, d.enqueued, :now, d.body
FROM json_each(:ids) AS e JOIN tenure_dead AS d ON d.id = e.value
"""
REPLAY_READY = """
INSERT INTO tenure_ready
SELECT j.queue, j.rank, j.key, 0, 0, d.fence, 0 FROM tenure_job AS j JOIN tenure_dead AS d ON d.id = j.id
WHERE j.key >= :first
"""
DROP_DEAD = "DELETE FROM tenure_dead WHERE id IN (SELECT value FROM json_each(:ids))"
DROP_FAILURES = "DELETE FROM tenure_failure WHERE id IN (SELECT value FROM json_each(:ids))"
DROP_HISTORY = "DELETE FROM tenure_history WHERE id IN (SELECT value FROM json_each(:ids))"
HISTORY_QUEUES = "SELECT DISTINCT queue FROM tenure_history WHERE state = :state"
OLD_HISTORY = """
SELECT id FROM tenure_history WHERE state = :state AND queue = :queue AND finished < :before
ORDER BY finished LIMIT :limit
"""
OLD_DEAD = "SELECT id FROM tenure_dead WHERE died < :before ORDER BY died LIMIT :limit"

GREET = "INSERT OR REPLACE INTO tenure_worker VALUES (:id, :expires, :record)"
PART = "DELETE FROM tenure_worker WHERE id = :id"
FORGET = "DELETE FROM tenure_worker WHERE expires <= :now"
WORKERS = "SELECT record FROM tenure_worker WHERE expires > :now"
