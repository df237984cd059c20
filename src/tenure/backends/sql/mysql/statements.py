"""What the algorithm says in MySQL's words, without RETURNING, which only MariaDB has.

Several statements go in one packet. Rows are found by equality with the leading columns of an index and a list of
plain keys: a list of one tuple would scan the table. `{now}` is the server's clock, or a test's.
"""

NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
BEGIN = "START TRANSACTION"
COMMIT = "COMMIT"

PUT_JOBS = """
INSERT INTO tenure_job (id, queue, `rank`, handler, name, enqueued, due, body, only_one, batch)
VALUES {rows}
ON DUPLICATE KEY UPDATE id = tenure_job.id
"""
PUT_ROW = "(%s, %s, %s, %s, %s, {now}, {due}, %s, %s, {batch})"
PUT_ROW_IN = "(%s, %s, %s, %s, %s, {now}, IF(%s > 0, %s, {now} + %s), %s, %s, %s)"
# An id that is known from an ended job is not stored again.
UNPUT = """
DELETE j FROM tenure_job AS j JOIN {ended} AS e ON e.id = j.id WHERE j.id IN ({ids}) AND j.batch = {batch}
"""
PUT_READY = """
INSERT INTO tenure_ready (queue, `rank`, `key`, attempts, crashes, fence, suspect)
SELECT queue, `rank`, `key`, 0, 0, 0, 0 FROM tenure_job WHERE id IN ({ids}) AND batch = {batch} AND due <= enqueued
"""
PUT_DELAYED = """
INSERT INTO tenure_delayed (`key`, queue, `rank`, attempts, crashes, fence, suspect, due)
SELECT `key`, queue, `rank`, 0, 0, 0, 0, due FROM tenure_job WHERE id IN ({ids}) AND batch = {batch} AND due > enqueued
"""
PUT_IDS = "SELECT id FROM tenure_job WHERE id IN ({ids}) AND batch = {batch}"

UNTIL_WORK = """
(SELECT EXISTS (SELECT 1 FROM tenure_ready WHERE queue = {queue}),
        (SELECT min(due) FROM tenure_delayed WHERE queue = {queue}) - {now})
"""
LATE = "SELECT EXISTS (SELECT 1 FROM tenure_delayed WHERE queue = {queue} AND due <= {now})"
PICK_DELAYED = """
SELECT `key`, `rank`, attempts, crashes, fence, suspect FROM tenure_delayed WHERE queue = {queue} AND due <= {now}
ORDER BY due LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
PICK = """
SELECT `key`, `rank`, attempts, crashes, fence, suspect FROM tenure_ready WHERE queue = {queue} {floor}
ORDER BY `rank`, `key` LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
FLOOR = "AND ((`rank` = {rank} AND `key` > {key}) OR `rank` > {rank})"
DROP_READY = "DELETE FROM tenure_ready WHERE queue = {queue} AND `rank` = {rank} AND `key` IN ({keys})"
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE `key` IN ({keys})"
GRANT = """
INSERT INTO tenure_lease (`key`, queue, `rank`, attempts, crashes, fence, suspect, owner, expires, asked) VALUES {rows}
"""
GRANT_TAIL = "%s, {now} + {length}, 0"
BODIES = "SELECT `key`, id, due, body FROM tenure_job WHERE `key` IN ({keys})"

HELD = """
SELECT l.`key`, l.queue, l.`rank`, l.attempts, l.crashes, l.fence, l.suspect, l.asked,
       j.id, j.handler, j.name, j.enqueued, j.due
FROM tenure_lease AS l JOIN tenure_job AS j ON j.`key` = l.`key`
"""
HELD_KEYS = f"{HELD} WHERE l.`key` IN ({{keys}}) AND l.owner = {{owner}} ORDER BY l.`key` FOR UPDATE"
HELD_LATE = f"""{HELD} WHERE l.queue = {{queue}} AND l.expires <= {{now}}
ORDER BY l.expires LIMIT {{limit}} FOR UPDATE SKIP LOCKED
"""
ARCHIVE = """
REPLACE INTO tenure_history (id, queue, `rank`, handler, name, state, attempts, crashes, fence, enqueued, due, finished,
                             owner, seconds, reason, output, run) VALUES {rows}
"""
ARCHIVE_ROW = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {now}, %s, %s, %s, %s, %s)"
BURY = """
REPLACE INTO tenure_dead (id, queue, `rank`, handler, name, attempts, crashes, fence, enqueued, due, died, owner,
                          reason, body)
SELECT j.id, l.queue, l.`rank`, j.handler, j.name, l.attempts + %s, l.crashes + %s, l.fence, j.enqueued, j.due,
       {now}, l.owner, %s, j.body
FROM tenure_lease AS l JOIN tenure_job AS j ON j.`key` = l.`key` WHERE l.`key` = %s
"""
READY = "INSERT INTO tenure_ready (queue, `rank`, `key`, attempts, crashes, fence, suspect) VALUES {rows}"
READY_ROW = "(%s, %s, %s, %s, %s, %s, %s)"
DELAYED = "INSERT INTO tenure_delayed (queue, `rank`, `key`, attempts, crashes, fence, suspect, due) VALUES {rows}"
DELAYED_ROW = "(%s, %s, %s, %s, %s, %s, %s, {now} + {delay})"
FAILED = "REPLACE INTO tenure_failure (id, fence, record) VALUES {rows}"
TRIM_FAILURES = """
DELETE FROM tenure_failure WHERE id = %s AND fence <= (
    SELECT fence FROM (
        SELECT fence FROM tenure_failure WHERE id = %s ORDER BY fence DESC LIMIT 1 OFFSET {keep}
    ) AS oldest
)
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE `key` IN ({keys})"
DROP_JOBS = "DELETE FROM tenure_job WHERE `key` IN ({keys})"
RENEW = "UPDATE tenure_lease SET expires = {now} + {length} WHERE `key` IN ({keys})"

# Otherwise a column of JSON_TABLE takes the database's character set, and other characters become `?`.
# MySQL accepts COLLATE here from 8.0.14 on.
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

# A row that is reserved can be locked: two who want the same new key then wait for each other.
RESERVE_GUARDS = f"""
INSERT INTO tenure_guard (`key`, state, expires, wake_at, waiting)
SELECT e.k, NULL, 0, 0, 0 FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (k VARCHAR(500) {_TEXT} PATH '$')) AS e
ORDER BY e.k
ON DUPLICATE KEY UPDATE waiting = tenure_guard.waiting
"""
KEEP_GUARDS = f"""
INSERT INTO tenure_guard (`key`, state, expires, wake_at, waiting)
SELECT e.k, e.s, e.x, e.w, e.n FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    k VARCHAR(500) {_TEXT} PATH '$[0]', s LONGTEXT {_TEXT} PATH '$[1]',
    x BIGINT PATH '$[2]', w BIGINT PATH '$[3]', n SMALLINT PATH '$[4]'
)) AS e
ON DUPLICATE KEY UPDATE state = VALUES(state), expires = VALUES(expires), wake_at = VALUES(wake_at),
    waiting = VALUES(waiting)
"""

KEEP_RECORDS = f"""
INSERT INTO tenure_record (id, queue, state, moment, record)
SELECT e.i, e.q, e.s, e.m, e.r FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    i VARCHAR(191) {_TEXT} PATH '$[0]', q VARCHAR(100) {_TEXT} PATH '$[1]', s VARCHAR(20) {_TEXT} PATH '$[2]',
    m BIGINT PATH '$[3]', r LONGTEXT {_TEXT} PATH '$[4]'
)) AS e
ON DUPLICATE KEY UPDATE queue = VALUES(queue), state = VALUES(state), moment = VALUES(moment), record = VALUES(record)
"""

INDEX_NAMES = "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = database()"
SCHEMA_EXISTS = """
SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = 'tenure_schema'
"""
REPLAY_JOBS = """
INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body)
SELECT id, queue, rank, handler, name, enqueued, :now, body FROM tenure_dead WHERE id IN :ids ORDER BY enqueued, id
"""
COLLATION = "utf8mb4_bin"
COLLATIONS = """
SELECT collation_name FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')
"""
LOCK = "SELECT get_lock(concat('tenure-', md5(database())), 5)"
UNLOCK = "SELECT release_lock(concat('tenure-', md5(database())))"
FACTS = "SELECT @@version, @@innodb_flush_log_at_trx_commit"
