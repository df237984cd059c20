"""What the algorithm says in PostgreSQL's words: one statement a verb.

Batches go in as arrays. `OFFSET 0` and arrays made of subqueries pin the plan to index lookups, whatever the
statistics say. Rows are locked in the order of their keys, so that two verbs of one worker do not wait in a circle.
"""

from collections.abc import Sequence

from tenure.backends.contract import Message

NOW = "coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)"
THE_TIME = f"SELECT {NOW}"

_PUT = f"""
WITH item AS MATERIALIZED (
    SELECT i.*, moment.now, CASE WHEN i.moment > 0 THEN i.moment ELSE moment.now + i.delay END AS due
    FROM (SELECT {NOW} AS now) AS moment, unnest(
        %(ids)s::text[], %(queues)s::text[], %(ranks)s::smallint[], %(handlers)s::text[], %(names)s::text[],
        %(dues)s::bigint[], %(delays)s::bigint[], %(bodies)s::bytea[], %(uniques)s::text[]
    ) WITH ORDINALITY AS i(id, queue, rank, handler, name, moment, delay, body, only_one, place)
), fresh AS (
    INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body, only_one)
    SELECT id, queue, rank, handler, name, now, due, body, only_one FROM item
    {{unknown}}
    ORDER BY place ON CONFLICT DO NOTHING
    RETURNING key, id, queue, rank, enqueued, due
), {{stored}}, ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
    SELECT queue, rank, key, 0, 0, 0, 0 FROM stored WHERE due <= enqueued
), later AS (
    INSERT INTO tenure_delayed (key, queue, rank, attempts, crashes, fence, suspect, due)
    SELECT key, queue, rank, 0, 0, 0, 0, due FROM stored WHERE due > enqueued
)
SELECT id FROM stored
UNION ALL SELECT pg_notify('tenure', queue)::text FROM unnest(%(tell)s::text[]) AS queue
"""
PUT_NEW = _PUT.format(unknown="", stored="stored AS (SELECT * FROM fresh)")
# tenure_unput looks again for ids that ended meanwhile: 40 to 65 us of the server's time a batch (200 with it).
PUT = _PUT.format(
    unknown="""
    WHERE (SELECT h.id FROM tenure_history AS h WHERE h.id = item.id) IS NULL
      AND (SELECT d.id FROM tenure_dead AS d WHERE d.id = item.id) IS NULL
    """,
    stored="""
ended AS MATERIALIZED (
    SELECT tenure_unput(array_agg(id)) AS ids FROM fresh
), stored AS MATERIALIZED (
    SELECT * FROM fresh WHERE id <> ALL ((SELECT ids FROM ended)::text[])
)""",
)


def put(messages: Sequence[Message]) -> str:
    """What puts these for the first time."""
    return PUT_NEW if all(message.is_new for message in messages) else PUT


UNTIL_WORK = f"""
SELECT EXISTS (SELECT 1 FROM unnest(%(queues)s::text[]) AS q(name),
                      LATERAL (SELECT 1 FROM tenure_ready WHERE queue = q.name LIMIT 1) AS r),
       (SELECT min(d.due) - {NOW} FROM unnest(%(queues)s::text[]) AS q(name),
               LATERAL (SELECT due FROM tenure_delayed WHERE queue = q.name ORDER BY due LIMIT 1) AS d)
"""
PROMOTE = f"""
WITH late AS MATERIALIZED (
    SELECT key FROM tenure_delayed WHERE queue = %(queue)s AND due <= {NOW}
    ORDER BY due, key LIMIT %(most)s FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM tenure_delayed WHERE key = ANY(ARRAY(SELECT key FROM late)) RETURNING *
)
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
SELECT queue, rank, key, attempts, crashes, fence, suspect FROM moved
"""
# What is due must take its place first: then nothing is picked, and the caller promotes and asks again.
CLAIM = f"""
WITH late AS MATERIALIZED (
    SELECT %(promote)s AND EXISTS (
        SELECT 1 FROM tenure_delayed WHERE queue = %(queue)s AND due <= {NOW}
    ) AS waits
), picked AS MATERIALIZED (
    SELECT ctid AS place, rank, key, attempts, crashes, fence, suspect FROM tenure_ready
    WHERE queue = %(queue)s AND (rank, key) > (%(rank)s::smallint, %(key)s::bigint) AND NOT (SELECT waits FROM late)
    ORDER BY rank, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), numbered AS MATERIALIZED (
    SELECT *, row_number() OVER line = 1 AS is_first, max(suspect) OVER line = 1 AS met_suspect
    FROM picked WINDOW line AS (ORDER BY rank, key)
), taken AS MATERIALIZED (
    SELECT *, NOT met_suspect OR (is_first AND %(alone)s) AS granted FROM numbered
), gone AS (
    DELETE FROM tenure_ready WHERE ctid = ANY(ARRAY(SELECT place FROM taken WHERE granted))
), leased AS (
    INSERT INTO tenure_lease (key, queue, rank, attempts, crashes, fence, suspect, owner, expires, asked)
    SELECT key, %(queue)s, rank, attempts, crashes, fence + 1, suspect, %(owner)s, {NOW} + %(length)s::bigint, 0
    FROM taken WHERE granted
)
SELECT late.waits, t.met_suspect, t.granted, t.key, t.rank, t.attempts, t.crashes, t.fence + 1, t.suspect,
       j.id, j.due, j.body
FROM late LEFT JOIN taken AS t ON true
LEFT JOIN LATERAL (SELECT id, due, body FROM tenure_job WHERE key = t.key AND t.granted OFFSET 0) AS j ON true
ORDER BY t.rank, t.key
"""

_HELD = """\
held AS (
    DELETE FROM tenure_lease AS l USING item AS i
    WHERE l.key = ANY(%(keys)s::bigint[]) AND l.key = i.item AND l.fence = i.turn AND l.owner = %(owner)s
    RETURNING l.key, l.queue, l.rank, l.attempts, l.crashes, l.fence, l.asked, i.*
)"""
_HISTORY = """
INSERT INTO tenure_history (id, queue, rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished,
                            owner, seconds, reason, output)
"""
_AGAIN = """
ON CONFLICT (id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, crashes = excluded.crashes,
    fence = excluded.fence, finished = excluded.finished, owner = excluded.owner, seconds = excluded.seconds,
    reason = excluded.reason, output = excluded.output, run = excluded.run
"""
_FAILED = """\
failed AS (
    INSERT INTO tenure_failure (id, fence, record) SELECT id, fence, record FROM held WHERE record IS NOT NULL
    ON CONFLICT (id, fence) DO UPDATE SET record = excluded.record
)"""
_ARCHIVE = f"""
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(states)s::text[], %(seconds)s::float8[], %(reasons)s::text[],
        %(outputs)s::text[], %(runs)s::text[]
    ) AS i(item, turn, state, seconds, reason, output, run)
), {_HELD}, gone AS (
    DELETE FROM tenure_job WHERE key = ANY(ARRAY(SELECT key FROM held)) RETURNING key, id, handler, name, enqueued, due
)
{_HISTORY.replace("output)", "output, run)")}
SELECT j.id, h.queue, h.rank, j.handler, j.name, h.state, h.attempts, h.crashes, h.fence, j.enqueued, j.due, {NOW},
       %(owner)s, h.seconds, h.reason, h.output, h.run
FROM held AS h JOIN gone AS j ON j.key = h.key {{again}} RETURNING id, fence
"""
ARCHIVE = _ARCHIVE.format(again=_AGAIN)
ARCHIVE_NEW = _ARCHIVE.format(
    again=""
)  # refused when one has ended before; 11.3 instead of 14.1 us of the server's time
BURY = f"""
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(ids)s::text[], %(records)s::text[], %(reasons)s::text[],
        %(attempts)s::int[], %(crashes)s::int[]
    ) AS i(item, turn, id, record, reason, attempt, crash)
), {_HELD}, gone AS (
    DELETE FROM tenure_job WHERE key = ANY(ARRAY(SELECT key FROM held)) RETURNING *
), {_FAILED}
INSERT INTO tenure_dead (id, queue, rank, handler, name, attempts, crashes, fence, enqueued, due, died, owner, reason,
                         body)
SELECT j.id, h.queue, h.rank, j.handler, j.name, h.attempts + h.attempt, h.crashes + h.crash, h.fence,
       j.enqueued, j.due, {NOW}, %(owner)s, h.reason, j.body
FROM held AS h JOIN gone AS j ON j.key = h.key
ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, crashes = excluded.crashes, fence = excluded.fence,
    died = excluded.died, owner = excluded.owner, reason = excluded.reason
RETURNING id, fence
"""
# What somebody wanted cancelled ends instead of waiting again.
_CANCEL = f"""\
ended AS (
    DELETE FROM tenure_job WHERE key = ANY(ARRAY(SELECT key FROM back WHERE asked <> 0))
    RETURNING key, id, handler, name, enqueued, due
), cancelled AS (
    {_HISTORY}
    SELECT j.id, b.queue, b.rank, j.handler, j.name, 'cancelled', b.attempts, b.crashes, b.fence, j.enqueued, j.due,
           {NOW}, NULL, NULL, %(reason)s, NULL
    FROM back AS b JOIN ended AS j ON j.key = b.key {_AGAIN}
)"""
GIVE_BACK = f"""
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(ids)s::text[], %(records)s::text[], %(delays)s::bigint[],
        %(attempts)s::int[], %(crashes)s::int[], %(suspects)s::smallint[]
    ) AS i(item, turn, id, record, delay, attempt, crash, suspect)
), {_HELD}, back AS MATERIALIZED (
    SELECT key, queue, rank, attempts + attempt AS attempts, crashes + crash AS crashes, fence, suspect, asked, delay
    FROM held
), ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
    SELECT queue, rank, key, attempts, crashes, fence, suspect FROM back WHERE asked = 0 AND delay <= 0
), later AS (
    INSERT INTO tenure_delayed (key, queue, rank, attempts, crashes, fence, suspect, due)
    SELECT key, queue, rank, attempts, crashes, fence, suspect, {NOW} + delay FROM back WHERE asked = 0 AND delay > 0
), {_CANCEL}, {_FAILED}
SELECT id, fence FROM held
"""
EXPIRE = f"""
WITH late AS MATERIALIZED (
    SELECT key FROM tenure_lease WHERE queue = %(queue)s AND expires <= {NOW}
    ORDER BY expires LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), held AS (
    DELETE FROM tenure_lease WHERE key = ANY(ARRAY(SELECT key FROM late)) RETURNING *
), back AS MATERIALIZED (
    SELECT key, queue, rank, attempts, crashes + suspect AS crashes, fence, suspect, asked FROM held
), ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, suspect)
    SELECT queue, rank, key, attempts, crashes, fence, 1 FROM back WHERE asked = 0
), {_CANCEL}
SELECT b.key, j.id, b.suspect <> 0 FROM back AS b
CROSS JOIN LATERAL (SELECT id FROM tenure_job WHERE key = b.key OFFSET 0) AS j
"""
RENEW = f"""
UPDATE tenure_lease AS l SET expires = {NOW} + %(length)s::bigint
FROM unnest(%(keys)s::bigint[], %(fences)s::int[]) AS i(key, fence)
WHERE l.key = ANY(%(keys)s::bigint[]) AND l.key = i.key AND l.fence = i.fence AND l.owner = %(owner)s
RETURNING l.key, l.fence
"""
TRIM_FAILURES = """
DELETE FROM tenure_failure AS f WHERE f.id = ANY(%(ids)s::text[]) AND f.fence <= (
    SELECT fence FROM tenure_failure WHERE id = f.id ORDER BY fence DESC LIMIT 1 OFFSET %(keep)s
)
"""

# A row that is reserved can be locked: two who want the same new key then wait for each other.
RESERVE_GUARDS = """
INSERT INTO tenure_guard (key, state, expires, wake_at, waiting)
SELECT key, NULL, 0, 0, 0 FROM json_array_elements_text(%(rows)s::json) AS key ORDER BY key COLLATE "C"
ON CONFLICT DO NOTHING
"""
KEEP_GUARDS = """
INSERT INTO tenure_guard (key, state, expires, wake_at, waiting)
SELECT e ->> 0, e ->> 1, (e ->> 2)::bigint, (e ->> 3)::bigint, (e ->> 4)::smallint
FROM json_array_elements(%(rows)s::json) AS e
ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires = excluded.expires, wake_at = excluded.wake_at,
    waiting = excluded.waiting
"""
KEEP_RECORDS = """
INSERT INTO tenure_record (id, queue, state, moment, record)
SELECT e ->> 0, e ->> 1, e ->> 2, (e ->> 3)::bigint, e ->> 4 FROM json_array_elements(%(rows)s::json) AS e
ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, state = excluded.state, moment = excluded.moment,
    record = excluded.record
"""
TELL = "SELECT pg_notify('tenure', queue) FROM unnest(%(tell)s::text[]) AS queue"

SCHEMA_EXISTS = "SELECT 1 WHERE to_regclass('tenure_schema') IS NOT NULL"
INDEX_NAMES = """
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indisvalid AND left(c.relname, 7) = 'tenure_' AND pg_table_is_visible(c.oid)
"""
REPLAY_JOBS = """
INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body)
SELECT id, queue, rank, handler, name, enqueued, :now, body FROM tenure_dead WHERE id IN :ids ORDER BY enqueued, id
"""
LOCK = "SELECT pg_advisory_xact_lock(hashtext('tenure'), 0)"
FACTS = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')"
