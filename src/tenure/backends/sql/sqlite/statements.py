"""What the algorithm says in SQLite's words.

sqlite3 releases the GIL once a step, and taking it back from a busy thread costs up to a switch interval,
so every statement is a single step: batches go in as one JSON text and come back as one row.
What a busy worker does in several statements is one step too, and commits itself (`OneStep`).
"""

import re
from typing import NamedTuple


class OneStep(NamedTuple):
    """Several statements as one: the trigger of a view, whose only row are their parameters."""

    statements: tuple[str, ...]
    view: str
    trigger: str
    call: str


def one_step(name: str, *statements: str) -> OneStep:
    names = dict.fromkeys(re.findall(r":(\w+)", " ".join(statements)))
    body = re.sub(r":(\w+)", r"NEW.\1", ";\n".join(statements))
    return OneStep(
        statements,
        f"CREATE TEMP VIEW {name} AS SELECT {', '.join(f'NULL AS {each}' for each in names)}",
        f"CREATE TEMP TRIGGER {name}_step INSTEAD OF INSERT ON {name} BEGIN\n{body};\nEND",
        f"INSERT INTO {name} VALUES ({', '.join(f':{each}' for each in names)})",
    )


BEGIN = "BEGIN IMMEDIATE"
NEXT_KEY = "SELECT max(:now, coalesce(max(key) + 1, 0)) FROM tenure_job"
_INTO_JOB = """
INSERT OR IGNORE INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body, only_one)
"""
# Without numbers: Python 3.12.0 to 3.12.3 warns of each numbered value of each row, at three times the cost of a put.
PUT_NEW = f"{_INTO_JOB} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_JOB = f"""{_INTO_JOB}
SELECT * FROM (SELECT ?, ? AS id, ?, ?, ?, ?, ?, ?, ?, ?) AS new
WHERE NOT EXISTS (SELECT 1 FROM tenure_history AS ended WHERE ended.id = new.id)
  AND NOT EXISTS (SELECT 1 FROM tenure_dead AS dead WHERE dead.id = new.id)
"""
PUT_READY = """
INSERT INTO tenure_ready SELECT queue, rank, key, 0, 0, 0, 0 FROM tenure_job WHERE key >= :first AND due <= :now
"""
PUT_DELAYED = """
INSERT INTO tenure_delayed SELECT key, queue, rank, 0, 0, 0, 0, due FROM tenure_job WHERE key >= :first AND due > :now
"""
PUT_IDS = "SELECT id FROM tenure_job WHERE key >= :first ORDER BY key"

UNTIL_WORK = """
SELECT EXISTS (SELECT 1 FROM tenure_ready WHERE queue = :queue),
       (SELECT min(due) FROM tenure_delayed WHERE queue = :queue)
"""
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
_UP_TO = "queue = :queue AND (rank, key) <= (:rank, :key)"  # and among these a job that joined a transaction since
GRANT = one_step(
    "tenure_grant",
    f"""
INSERT INTO tenure_lease
SELECT key, queue, rank, attempts, crashes, fence + 1, suspect, :owner, :expires, 0, NULL, NULL
FROM tenure_ready WHERE {_UP_TO} AND key IN (SELECT value FROM json_each(:keys))
""",
    f"DELETE FROM tenure_ready WHERE {_UP_TO} AND key IN (SELECT key FROM tenure_lease)",
)

HELD = """
SELECT json_group_array(json_array(j.id, l.fence)), json_group_array(l.key) FILTER (WHERE l.asked)
FROM json_each(:keys) AS e JOIN tenure_lease AS l ON l.key = e.value JOIN tenure_job AS j ON j.key = l.key
WHERE l.owner = :owner
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE key IN (SELECT value FROM json_each(:keys))"
_DROP_JOBS = "DELETE FROM tenure_job WHERE key IN (SELECT value FROM json_each(:keys))"
_ARCHIVED = """
INSERT OR REPLACE INTO tenure_history
SELECT j.id, l.queue, l.rank, j.handler, j.name, {state}, l.attempts, l.crashes, l.fence,
       j.enqueued, j.due, :now, l.owner, {seconds}, {reason}, {output}, {run}
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = {key} JOIN tenure_job AS j ON j.key = l.key
"""
ARCHIVE = one_step(
    "tenure_archive",
    _ARCHIVED.format(
        key="e.value ->> 0",
        state="e.value ->> 1",
        seconds="e.value ->> 2",
        reason="e.value ->> 3",
        output="e.value ->> 4",
        run="nullif(e.value -> 5, 'null')",
    ),
    DROP_LEASES,
    _DROP_JOBS,
)
# What nearly every batch is: runs that say nothing, on leases that are all held. 2.8 instead of 5.1 us for a row.
ARCHIVE_RUNS = one_step(
    "tenure_archive_runs",
    """
SELECT RAISE(ABORT, 'not all are held') WHERE :held IS NOT (
    SELECT group_concat(j.id || ' ' || l.fence)
    FROM json_each(:keys) AS e JOIN tenure_lease AS l ON l.key = e.value JOIN tenure_job AS j ON j.key = l.key
    WHERE l.owner = :owner AND NOT l.asked
)
""",
    _ARCHIVED.format(
        key="CAST(e.key AS INTEGER)",
        state=":state",
        seconds="e.value ->> 2",
        reason="NULL",
        output="NULL",
        run="e.value",
    ),
    DROP_LEASES,
    _DROP_JOBS,
)
BURY = one_step(
    "tenure_bury",
    """
INSERT OR REPLACE INTO tenure_dead
SELECT j.id, l.queue, l.rank, j.handler, j.name, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence,
       j.enqueued, j.due, :now, l.owner, e.value ->> 1, j.body
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 JOIN tenure_job AS j ON j.key = l.key
""",
    DROP_LEASES,
    _DROP_JOBS,
)
RETURN = one_step(
    "tenure_return",
    """
INSERT INTO tenure_ready
SELECT l.queue, l.rank, l.key, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 WHERE e.value ->> 1 <= :now
""",
    """
INSERT INTO tenure_delayed
SELECT l.key, l.queue, l.rank, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4,
       e.value ->> 1
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 WHERE e.value ->> 1 > :now
""",
    DROP_LEASES,
)
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

INDEX_NAMES = "SELECT name FROM sqlite_master WHERE type = 'index'"
SCHEMA_EXISTS = "SELECT 1 FROM sqlite_master WHERE name = 'tenure_schema'"
REPLAY_JOBS = """
INSERT INTO tenure_job (key, id, queue, rank, handler, name, enqueued, due, body)
SELECT (SELECT max(:now, coalesce(max(key) + 1, 0)) FROM tenure_job) + row_number() OVER (ORDER BY enqueued, id),
       id, queue, rank, handler, name, enqueued, :now, body
FROM tenure_dead WHERE id IN :ids
"""

KEEP_GUARDS = """
INSERT OR REPLACE INTO tenure_guard
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows)
"""
KEEP_RECORDS = """
INSERT OR REPLACE INTO tenure_record (id, queue, state, moment, record)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows)
"""

ONE_STEPS = (GRANT, ARCHIVE, ARCHIVE_RUNS, BURY, RETURN)
