"""MysqlDialect: many hosts, many writers, the server's clock; a verb is one or two packets in a transaction."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import msgspec

from tenure.backends.ends import EndWait, Wakeup, polling
from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack
from tenure.backends.records import Fact
from tenure.backends.sql.connections import first_column, poll
from tenure.backends.sql.dialect import KNOWN_IDS, ClaimCursor, Expired, Grant, Pair, Row, Rows, Wait, stored_tags
from tenure.backends.sql.mysql.claims import MysqlClaims
from tenure.backends.sql.mysql.connection import BEGIN, COMMIT, MysqlExecutor, MysqlServer, MysqlSession
from tenure.backends.sql.mysql.settlements import MysqlSettlements
from tenure.clock import MICROSECOND, Clock
from tenure.definition.limits import MAX_TAG, MAX_TAGS
from tenure.definition.payload import plain_text
from tenure.errors import BackendError

T = TypeVar("T")
# Without it a column of JSON_TABLE takes the database's character set, and other characters become `?`.
# MySQL accepts COLLATE here from 8.0.14 on.
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

# A reserved row can be locked, so of two transactions that want the same new key one waits for the other.
RESERVE_GUARDS = f"""
INSERT INTO tenure_guard (`key`, state, expires, wake_at, waiting)
SELECT e.k, NULL, 0, 0, 0 FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (k VARCHAR(500) {_TEXT} PATH '$')) AS e
ORDER BY e.k
ON DUPLICATE KEY UPDATE waiting = tenure_guard.waiting
"""
SAVE_GUARDS = f"""
INSERT INTO tenure_guard (`key`, state, expires, wake_at, waiting)
SELECT e.k, e.s, e.x, e.w, e.n FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    k VARCHAR(500) {_TEXT} PATH '$[0]', s LONGTEXT {_TEXT} PATH '$[1]',
    x BIGINT PATH '$[2]', w BIGINT PATH '$[3]', n SMALLINT PATH '$[4]'
)) AS e
ON DUPLICATE KEY UPDATE state = VALUES(state), expires = VALUES(expires), wake_at = VALUES(wake_at),
    waiting = VALUES(waiting)
"""

SAVE_RECORDS = f"""
INSERT INTO tenure_record (id, queue, state, moment, record)
SELECT e.i, e.q, e.s, e.m, e.r FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    i VARCHAR(191) {_TEXT} PATH '$[0]', q VARCHAR(100) {_TEXT} PATH '$[1]', s VARCHAR(20) {_TEXT} PATH '$[2]',
    m BIGINT PATH '$[3]', r LONGTEXT {_TEXT} PATH '$[4]'
)) AS e
ON DUPLICATE KEY UPDATE queue = VALUES(queue), state = VALUES(state), moment = VALUES(moment), record = VALUES(record)
"""
SAVE_RECORD_TAGS = f"""
INSERT IGNORE INTO tenure_record_tag (tag, enqueued, id)
SELECT e.t, e.q, e.i FROM JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    t VARCHAR(64) {_TEXT} PATH '$[0]', q BIGINT PATH '$[1]', i VARCHAR(191) {_TEXT} PATH '$[2]'
)) AS e
"""
INDEX_NAMES = "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = database()"
TABLE_EXISTS = """
SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = :name
"""
# The server gives the next keys to inserted rows only; these rows have no queue, and are deleted at once.
TAKE_KEYS = f"""
INSERT INTO tenure_job (id, queue, rank, handler, enqueued, due)
SELECT e.i, '', 0, '', 0, 0 FROM JSON_TABLE(%(ids)s, '$[*]' COLUMNS (i VARCHAR(191) {_TEXT} PATH '$')) AS e
"""
TAKEN_KEYS = "SELECT key FROM tenure_job WHERE id IN :ids ORDER BY key"
DROP_TAKEN = "DELETE FROM tenure_job WHERE key IN :keys"
_PAIRS = "JSON_TABLE(%(pairs)s, '$[*]' COLUMNS (old BIGINT PATH '$[0]', new BIGINT PATH '$[1]'))"
RENEW_JOBS = f"UPDATE tenure_job AS j JOIN {_PAIRS} AS e ON j.key = e.old SET j.key = e.new, j.due = %(now)s"
RENEW_DEAD = f"UPDATE tenure_dead AS d JOIN {_PAIRS} AS e ON d.key = e.old SET d.key = e.new"
RENEW_TAGS = f"UPDATE tenure_tag AS t JOIN {_PAIRS} AS e ON t.key = e.old SET t.key = e.new"
SETTINGS = "SELECT @@version, @@innodb_flush_log_at_trx_commit"


class MysqlDialect:
    """Runs again what the server rolled back."""

    name = "mysql"
    table_exists = TABLE_EXISTS
    index_names = INDEX_NAMES
    keep_last_key: str | None = None
    reserve_guards: str | None = RESERVE_GUARDS
    save_guards = SAVE_GUARDS
    save_records = SAVE_RECORDS
    save_record_tags = SAVE_RECORD_TAGS

    def __init__(self, server: MysqlServer, clock: Clock) -> None:
        self._executor = executor = MysqlExecutor(server, clock)
        self._cursor = cursor = ClaimCursor()
        self._claims = MysqlClaims(executor, cursor)
        self._settlements = MysqlSettlements(self, executor, cursor)
        self._last_work = time.monotonic()
        self.location = server.location

    def now(self) -> int:
        return int(self._executor.ask(lambda session: session.send(f"SELECT {self._executor.now()}"))[0][0][0])

    def put(self, messages: Sequence[Message]) -> list[str]:
        self._cursor.drop(*{message.queue for message in messages})
        stored, was_cut = self._executor.transaction_and_cut(
            lambda session: store(session, messages, secrets.randbits(62))
        )
        if was_cut:  # the first try may have stored them: an id that is known by now counts as stored
            stored |= {id for (id,) in self.read(KNOWN_IDS, {"ids": [message.id for message in messages]})}
        return _in_order(messages, stored)

    def put_on(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:  # noqa: ARG002 - all poll
        return _in_order(messages, store_on(connection, messages, secrets.randbits(62), self._executor.now()))

    async def put_on_async(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:  # noqa: ARG002 - refused
        raise BackendError("jobs on MySQL cannot join a transaction of an async driver; use PyMySQL or mysqlclient")

    async def holders_on_async(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:  # noqa: ARG002 - refused
        raise BackendError("jobs on MySQL cannot join a transaction of an async driver; use PyMySQL or mysqlclient")

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        def put(session: MysqlSession) -> None:
            session.send(BEGIN)
            if messages := choose(session.neutral):
                store(session, messages, secrets.randbits(62))

        self._cursor.drop_all()
        self._executor.transaction(put, again=False)

    def until_work(self, queues: Sequence[str]) -> float:
        return self._claims.until_work(queues)

    def watch(self, queues: Sequence[str]) -> AbstractContextManager[Wait]:  # noqa: ARG002 - it polls
        return nullcontext(lambda seconds: poll(seconds, self._last_work))

    def watch_ends(self, wakeup: Wakeup) -> AbstractContextManager[EndWait]:
        return polling(wakeup)

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        leases = self._claims.claim(queues, limit, grant)
        if leases:
            self._last_work = time.monotonic()
        return leases

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        return self._settlements.ack(owner, verdicts)

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        return self._settlements.ack_members(owner, verdicts, batches, ended)

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        return self._settlements.nack(owner, verdicts)

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        return self._settlements.abandon(owner, verdicts)

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        return self._claims.renew(leases, grant)

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        return self._claims.expire(queue, limit, suspect_after)

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self._executor.ask(lambda session: session.neutral(statement, parameters))

    def transact(self, work: Callable[[Rows], T]) -> T:
        self._cursor.drop_all()  # jobs that a user replays come back at any place
        return self._executor.transaction(_begun(work), again=False)

    def transact_volatile(self, work: Callable[[Rows], T]) -> T:
        return self._executor.transaction(_begun(work), again=False, lock_tries=1)

    def time_in(self, rows: Rows) -> int:
        return self._executor.time_in(rows)

    def renew_keys(self, rows: Rows, keys: Sequence[int], now: int) -> None:
        batch = secrets.token_hex(16)
        ids = [f"key {batch} {number}" for number in range(len(keys))]
        rows(TAKE_KEYS, {"ids": _json(ids)})
        new = [key for (key,) in rows(TAKEN_KEYS, {"ids": ids})]
        rows(DROP_TAKEN, {"keys": new})
        pairs = _json(list(zip(keys, new, strict=True)))
        rows(RENEW_JOBS, {"pairs": pairs, "now": now})
        rows(RENEW_DEAD, {"pairs": pairs})
        rows(RENEW_TAGS, {"pairs": pairs})

    def wake_workers(self, rows: Rows, queues: Iterable[str]) -> None:  # noqa: ARG002 - workers poll
        self._cursor.drop(*queues)

    def migration(self) -> AbstractContextManager[Rows]:
        return self._executor.migration()

    def facts(self) -> list[Fact]:
        version, flush = self._executor.ask(lambda session: session.send(SETTINGS))[0][0]
        durable = int(flush) == 1
        promise = "a job is on the server's disk before enqueue returns" if durable else "the last jobs may be lost"
        return [
            Fact("server", f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {version}"),
            Fact("durability", f"{promise} (innodb_flush_log_at_trx_commit={flush})", warning=not durable),
            Fact("wake-ups", "workers poll every 25 ms, or 100 ms when idle"),
        ]

    def close(self) -> None:
        self._executor.close()


def _begun(work: Callable[[Rows], T]) -> Callable[[MysqlSession], T]:
    def transaction(session: MysqlSession) -> T:
        session.send(BEGIN)
        return work(session.neutral)

    return transaction


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values, enc_hook=plain_text).decode()  # an id may be the handle of a job


def _in_order(messages: Sequence[Message], stored: set[str]) -> list[str]:
    return list(dict.fromkeys(message.id for message in messages if message.id in stored))


# Storing messages: the whole batch or nothing, and only ids that are new.
PUT_JOBS = """
INSERT INTO tenure_job (id, queue, `rank`, handler, name, enqueued, due, body, only_one, batch{tags})
VALUES {rows}
ON DUPLICATE KEY UPDATE id = tenure_job.id
"""
PUT_ROW = "(%s, %s, %s, %s, %s, {now}, {due}, %s, %s, {batch})"
PUT_TAGGED_ROW = "(%s, %s, %s, %s, %s, {now}, {due}, %s, %s, {batch}, %s)"
PUT_ROW_ON = "(%s, %s, %s, %s, %s, {now}, IF(%s > 0, %s, {now} + %s), %s, %s, %s, %s)"
# Each tag of a list is what is left of its n-th comma and right of the one before.
PUT_TAGS = f"""
INSERT INTO tenure_tag (tag, enqueued, `key`)
SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(j.tags, ',', n.n), ',', -1), j.enqueued, j.`key`
FROM tenure_job AS j
STRAIGHT_JOIN ({" UNION ALL ".join(f"SELECT {n} AS n" for n in range(1, MAX_TAGS + 1))}) AS n
    ON n.n <= 1 + CHAR_LENGTH(j.tags) - CHAR_LENGTH(REPLACE(j.tags, ',', ''))
WHERE j.id IN ({{ids}}) AND j.batch = {{batch}}
"""
PUT_READY = """
INSERT INTO tenure_ready (queue, `rank`, `key`, attempts, crashes, fence, vanished)
SELECT queue, `rank`, `key`, 0, 0, 0, 0 FROM tenure_job WHERE id IN ({ids}) AND batch = {batch} AND due <= enqueued
"""
PUT_DELAYED = """
INSERT INTO tenure_delayed (`key`, queue, `rank`, attempts, crashes, fence, vanished, due)
SELECT `key`, queue, `rank`, 0, 0, 0, 0, due FROM tenure_job WHERE id IN ({ids}) AND batch = {batch} AND due > enqueued
"""
PUT_IDS = "SELECT id FROM tenure_job WHERE id IN ({ids}) AND batch = {batch}"
_IN_TRANSACTION = 1  # a bit of the server status that comes with every answer
_MAX_PACKET_BYTES = 4_000_000  # well below the smallest usual max_allowed_packet


def store(session: MysqlSession, messages: Sequence[Message], batch: int) -> set[str]:
    """Store messages in a transaction of their own; return the ids that are new. A `batch` is never used twice."""
    ids = session.quoted(message.id for message in messages)
    *most, last = _packets(session, messages, batch)
    if most:
        session.send(BEGIN, most[0])
    for packet in most[1:]:
        session.send(packet)
    begin = [] if most else [BEGIN]
    ready, *found = (session.fill(text, ids=ids, batch=batch) for text in (PUT_READY, PUT_IDS))
    later = [session.fill(PUT_DELAYED, ids=ids, batch=batch)] if any(m.delay or m.due for m in messages) else []
    tagged = session.quoted(message.id for message in messages if message.tags)
    tags = [session.fill(PUT_TAGS, ids=tagged, batch=batch)] if tagged else []
    return {id for (id,) in session.send(*begin, last, ready, *later, *tags, *found, COMMIT)[-2]}


def store_on(connection: Any, messages: Sequence[Message], batch: int, now: str) -> set[str]:
    """Store messages in a transaction of the caller, one statement at a time: its driver may not accept more."""
    if connection.get_autocommit() and not getattr(connection, "server_status", 0) & _IN_TRANSACTION:
        raise BackendError("this connection commits every statement by itself; begin a transaction on it first")
    marks, ids = ", ".join(["%s"] * len(messages)), [message.id for message in messages]
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT tenure")
        try:
            for message in messages:
                insert = PUT_JOBS.replace("{tags}", ", tags").replace("{rows}", PUT_ROW_ON.format(now=now))
                cursor.execute(insert, _columns(message, batch))
            for statement in (PUT_READY, PUT_DELAYED, *([PUT_TAGS] if _are_tagged(messages) else []), PUT_IDS):
                cursor.execute(statement.replace("{ids}", marks).replace("{batch}", str(batch)), ids)
            stored = {first_column(row) for row in cursor.fetchall()}
        except BaseException:
            cursor.execute("ROLLBACK TO SAVEPOINT tenure")  # the caller must not commit a part
            raise
        cursor.execute("RELEASE SAVEPOINT tenure")
    return stored


def _columns(message: Message, batch: int) -> tuple[Any, ...]:
    facts = (message.id, message.queue, -message.priority, message.handler, message.name)
    due = (message.due, message.due, round(message.delay * MICROSECOND))
    return (*facts, *due, message.body, message.unique, batch, stored_tags(message))


def _are_tagged(messages: Sequence[Message]) -> bool:
    return any(message.tags for message in messages)


def _packets(session: MysqlSession, messages: Sequence[Message], batch: int) -> Iterator[str]:
    size, first = 0, 0
    for end, message in enumerate(messages, 1):
        size += 2 * len(message.body) + 500  # each byte is written as two digits
        size += 4 * (MAX_TAG + 1) * len(message.tags)
        if size > _MAX_PACKET_BYTES or end == len(messages):
            yield _inserted(session, messages[first:end], batch)
            size, first = 0, end


def _inserted(session: MysqlSession, messages: Sequence[Message], batch: int) -> str:
    if _are_tagged(messages):
        column, row = ", tags", PUT_TAGGED_ROW
        values = [value for m in messages for value in (*_values(m), stored_tags(m))]
    else:
        column, row = "", PUT_ROW
        values = [value for m in messages for value in _values(m)]
    shapes = [session.fill(row.replace("{due}", _due(message)), batch=batch) for message in messages]
    return PUT_JOBS.replace("{tags}", column).replace("{rows}", session.escaped(shapes, values))


def _values(m: Message) -> tuple[Any, ...]:
    return (m.id, m.queue, -m.priority, m.handler, m.name, m.body, m.unique)


def _due(message: Message) -> str:
    if message.due:
        return str(message.due)
    return f"{{now}} + {round(message.delay * MICROSECOND)}" if message.delay else "{now}"
