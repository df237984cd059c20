"""PostgresDialect: many hosts, many writers, the server's clock; a verb is one statement."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import psycopg

from tenure.backends.ends import EndWait, Wakeup
from tenure.backends.messages import Abandon, Ack, Lease, Message, Nack
from tenure.backends.records import Fact
from tenure.backends.sql.async_connections import AsyncConnection, rows_on_async
from tenure.backends.sql.connections import GUARD_LOCK_SECONDS, IDLE_TRANSACTION_SECONDS, first_column
from tenure.backends.sql.dialect import KNOWN_IDS, ClaimCursor, Expired, Grant, Pair, Row, Rows, Wait, stored_tags
from tenure.backends.sql.postgresql.claims import PostgresClaims
from tenure.backends.sql.postgresql.connection import (
    NOW,
    ByteaArray,
    PostgresExecutor,
    PostgresServer,
    bytes_array,
    number_array,
    storable,
    text_array,
)
from tenure.backends.sql.postgresql.end_signals import PostgresEndListener, PostgresEndNotifier
from tenure.backends.sql.postgresql.notifications import IDLE_POLL_SECONDS, PostgresListener, PostgresNotifier
from tenure.backends.sql.postgresql.settlements import PostgresSettlements
from tenure.clock import MICROSECOND, Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")
TIME = f"SELECT {NOW}"
# A reserved row can be locked, so of two transactions that want the same new key one waits for the other, not for long.
# The settings are made here too because a pooler keeps none of a session.
RESERVE_GUARDS = f"""
INSERT INTO tenure_guard (key, state, expires, wake_at, waiting)
SELECT key, NULL, 0, 0, 0
FROM set_config('lock_timeout', '{round(GUARD_LOCK_SECONDS * 1000)}', true) AS wait,
     set_config('idle_in_transaction_session_timeout', '{round(IDLE_TRANSACTION_SECONDS * 1000)}', true) AS silence,
     json_array_elements_text(%(rows)s::json) AS key
ORDER BY key COLLATE "C"
ON CONFLICT DO NOTHING
"""
SAVE_GUARDS = """
INSERT INTO tenure_guard (key, state, expires, wake_at, waiting)
SELECT e ->> 0, e ->> 1, (e ->> 2)::bigint, (e ->> 3)::bigint, (e ->> 4)::smallint
FROM json_array_elements(%(rows)s::json) AS e
ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires = excluded.expires, wake_at = excluded.wake_at,
    waiting = excluded.waiting
"""
SAVE_RECORDS = """
INSERT INTO tenure_record (id, queue, state, moment, record)
SELECT e ->> 0, e ->> 1, e ->> 2, (e ->> 3)::bigint, e ->> 4 FROM json_array_elements(%(rows)s::json) AS e
ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, state = excluded.state, moment = excluded.moment,
    record = excluded.record
"""
SAVE_RECORD_TAGS = """
INSERT INTO tenure_record_tag (tag, enqueued, id)
SELECT e ->> 0, (e ->> 1)::bigint, e ->> 2 FROM json_array_elements(%(rows)s::json) AS e
ON CONFLICT DO NOTHING
"""
TABLE_EXISTS = "SELECT 1 WHERE to_regclass(:name) IS NOT NULL"
INDEX_NAMES = """
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indisvalid AND left(c.relname, 7) = 'tenure_' AND pg_table_is_visible(c.oid)
"""
RENEW_KEYS = """
WITH fresh AS MATERIALIZED (
    SELECT key, nextval(pg_get_serial_sequence('tenure_job', 'key')) AS new
    FROM (SELECT key FROM unnest(%(keys)s::bigint[]) WITH ORDINALITY AS k(key, place) ORDER BY place) AS ordered
), jobs AS (
    UPDATE tenure_job AS j SET key = f.new, due = %(now)s FROM fresh AS f
    WHERE j.key = ANY(%(keys)s::bigint[]) AND j.key = f.key
), tags AS (
    UPDATE tenure_tag AS t SET key = f.new FROM fresh AS f WHERE t.key = ANY(%(keys)s::bigint[]) AND t.key = f.key
)
UPDATE tenure_dead AS d SET key = f.new FROM fresh AS f WHERE d.key = ANY(%(keys)s::bigint[]) AND d.key = f.key
"""
HOLDERS = "SELECT only_one, id FROM tenure_job WHERE only_one = ANY(%(uniques)s::text[])"
SETTINGS = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')"


class PostgresDialect:
    """Runs again what the server rolled back."""

    name = "postgresql"
    table_exists = TABLE_EXISTS
    index_names = INDEX_NAMES
    keep_last_key: str | None = None
    reserve_guards: str | None = RESERVE_GUARDS
    save_guards = SAVE_GUARDS
    save_records = SAVE_RECORDS
    save_record_tags = SAVE_RECORD_TAGS

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._executor = executor = PostgresExecutor(server, clock)
        self._cursor = cursor = ClaimCursor()
        self._notifier = PostgresNotifier(server, executor)
        self._listener = PostgresListener(server)
        self._end_notifier = PostgresEndNotifier(executor)
        self._end_listener = PostgresEndListener(server)
        self._put = PostgresPut(executor, self._notifier, cursor)
        self._claims = PostgresClaims(executor, cursor)
        self._settlements = PostgresSettlements(self, executor, cursor)
        self.location = server.location

    def now(self) -> int:
        return int(self._executor.ask(TIME, {})[0][0])

    def put(self, messages: Sequence[Message]) -> list[str]:
        return self._put.put(messages)

    def put_on(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        return self._put.put_on(connection, messages, wake)

    async def put_on_async(self, connection: AsyncConnection, messages: Sequence[Message], wake: bool) -> list[str]:
        rows = await rows_on_async(connection)(put_statement(messages), self._put.parameters_on(messages, wake))
        return _in_order(messages, {row[0] for row in rows})

    async def holders_on_async(self, connection: AsyncConnection, uniques: Sequence[str]) -> dict[str, str]:
        return {row[0]: row[1] for row in await rows_on_async(connection)(HOLDERS, {"uniques": text_array(uniques)})}

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        self._put.put_chosen(choose)

    def until_work(self, queues: Sequence[str]) -> float:
        return self._claims.until_work(queues)

    def watch(self, queues: Sequence[str]) -> AbstractContextManager[Wait]:
        return nullcontext(partial(self._listener.wait, queues))

    def watch_ends(self, wakeup: Wakeup) -> AbstractContextManager[EndWait]:
        return self._end_listener.watch(wakeup)

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        leases = self._claims.claim(queues, limit, grant)
        if leases:
            self._listener.had_work()
        return leases

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        held = self._settlements.ack(owner, verdicts)
        self._end_notifier.notify()
        return held

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        held = self._settlements.ack_members(owner, verdicts, batches, ended)
        self._end_notifier.notify()
        return held

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        held = self._settlements.nack(owner, verdicts)
        self._notifier.notify(verdict.lease.queue for verdict in verdicts if verdict.delay < IDLE_POLL_SECONDS)
        self._end_notifier.notify()  # a job that a user cancelled ends here
        return held

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        held = self._settlements.abandon(owner, verdicts)
        self._end_notifier.notify()
        return held

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        return self._claims.renew(leases, grant)

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        expired = self._claims.expire(queue, limit, suspect_after)
        if expired:
            self._end_notifier.notify()  # a job that a user cancelled ends here
        return expired

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self._executor.ask(statement, parameters)

    def transact(self, work: Callable[[Rows], T]) -> T:
        self._cursor.drop_all()  # jobs that a user replays come back at any place
        answer = self.transact_volatile(work)
        self._end_notifier.notify()  # it may have cancelled or deleted jobs
        return answer

    def transact_volatile(self, work: Callable[[Rows], T]) -> T:
        answer = self._executor.transact(work)
        self._notifier.notify_added()
        return answer

    def time_in(self, rows: Rows) -> int:
        return int(rows(TIME, {"now": self._executor.test_time()})[0][0])

    def renew_keys(self, rows: Rows, keys: Sequence[int], now: int) -> None:
        rows(RENEW_KEYS, {"keys": number_array(keys), "now": now})

    def wake_workers(self, rows: Rows, queues: Iterable[str]) -> None:  # noqa: ARG002 - not in the transaction
        self._cursor.drop(*queues)
        self._notifier.add(queues)

    def migration(self) -> AbstractContextManager[Rows]:
        return self._executor.migration()

    def facts(self) -> list[Fact]:
        version, commit, fsync = self._executor.ask(SETTINGS, {})[0]
        durable = commit != "off" and fsync == "on"
        promise = "a job is on the server's disk before enqueue returns" if durable else "the last jobs may be lost"
        return [
            Fact("server", f"PostgreSQL {version}"),
            Fact("durability", f"{promise} (synchronous_commit={commit}, fsync={fsync})", warning=not durable),
            self._listener.fact(self._executor.ask),
        ]

    def close(self) -> None:
        self._listener.close()
        self._end_listener.close()
        self._executor.close()


# Storing messages: one statement, in a transaction of the backend or of the caller.
def _put(conflict: str, answer: str, *, tagged: bool = False) -> str:
    """`unnest` fills shorter arrays up with NULL: an array is empty if no message has such a value."""
    array, column, index = (", %(tags)s::text[]", ", tags", _PUT_TAGS) if tagged else ("", "", "")
    return f"""
WITH item AS MATERIALIZED (
    SELECT i.*, moment.now, CASE WHEN i.moment > 0 THEN i.moment ELSE moment.now + coalesce(i.delay, 0) END AS due
    FROM (SELECT {NOW} AS now) AS moment, unnest(
        %(ids)s::text[], %(queues)s::text[], %(ranks)s::smallint[], %(handlers)s::text[], %(names)s::text[],
        %(dues)s::bigint[], %(delays)s::bigint[], %(bodies)s::bytea[], %(uniques)s::text[]{array}
    ) WITH ORDINALITY AS i(id, queue, rank, handler, name, moment, delay, body, only_one{column}, place)
), fresh AS (
    INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body, only_one{column})
    SELECT id, queue, rank, handler, name, now, due, body, only_one{column} FROM item
    ORDER BY place {conflict}
    RETURNING key, id, queue, rank, enqueued, due{column}
), ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
    SELECT queue, rank, key, 0, 0, 0, 0 FROM fresh WHERE due <= enqueued
), later AS (
    INSERT INTO tenure_delayed (key, queue, rank, attempts, crashes, fence, vanished, due)
    SELECT key, queue, rank, 0, 0, 0, 0, due FROM fresh WHERE due > enqueued
){index}
{answer}
"""


_PUT_TAGS = """, tag AS (
    INSERT INTO tenure_tag (tag, enqueued, key)
    SELECT unnest(string_to_array(tags, ',')), enqueued, key FROM fresh WHERE tags IS NOT NULL
)"""
_IF_NEW = (
    "ON CONFLICT DO NOTHING",
    "SELECT id FROM fresh UNION ALL SELECT pg_notify('tenure', queue)::text FROM unnest(%(notify)s::text[]) AS queue",
)
PUT = _put(*_IF_NEW)
PUT_TAGGED = _put(*_IF_NEW, tagged=True)
# Fails if a message is known. Looking for conflicts costs the server 2.7 of 12.5 us a message, the answer 0.3.
PUT_NEW = _put("", "SELECT WHERE false")
PUT_NEW_TAGGED = _put("", "SELECT WHERE false", tagged=True)
# Most puts: one message that is due at once. It takes 100 instead of 150 us of the server, and 55 instead of 90 here.
PUT_ONE = f"""
WITH fresh AS (
    INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body, only_one)
    SELECT %(id)s::text, %(queue)s::text, %(rank)s::smallint, %(handler)s::text, %(name)s::text, now, now,
           %(body)s::bytea, %(unique)s::text
    FROM (SELECT {NOW} AS now OFFSET 0) AS moment
    ON CONFLICT DO NOTHING
    RETURNING key
)
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT %(queue)s::text, %(rank)s::smallint, key, 0, 0, 0, 0 FROM fresh
RETURNING key
"""


class PostgresPut:
    def __init__(self, executor: PostgresExecutor, notifier: PostgresNotifier, cursor: ClaimCursor) -> None:
        self._executor = executor
        self._notifier = notifier
        self._cursor = cursor

    def put(self, messages: Sequence[Message]) -> list[str]:
        queues = {message.queue for message in messages}
        self._cursor.drop(*queues)
        if len(messages) == 1 and not (messages[0].due or messages[0].delay or messages[0].tags):
            stored, was_cut = self._executor.run(partial(self._store_one, messages[0]))
        else:
            stored, was_cut = self._executor.run(partial(_store_many, messages, self._parameters(messages)))
        if was_cut:  # the first try may have stored them: an id that is known by now counts as stored
            known = self._executor.ask(KNOWN_IDS, {"ids": [message.id for message in messages]})
            stored |= {id for (id,) in known}
        self._notifier.notify(queues)
        return _in_order(messages, stored)

    def put_on(self, connection: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(put_statement(messages), self.parameters_on(messages, wake))
            stored = {first_column(row) for row in cursor.fetchall()}
        return _in_order(messages, stored)

    def parameters_on(self, messages: Sequence[Message], wake: bool) -> dict[str, Any]:
        """The parameters of PUT on a connection of the caller: one of Django or asyncpg sends text only."""
        notify = {message.queue for message in messages} if wake else ()
        return {**self._parameters(messages, notify), "bodies": bytes_array([m.body for m in messages])}

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        def put(rows: Rows) -> None:
            messages = choose(rows)
            if messages:
                rows(put_statement(messages), self._parameters(messages))
                self._notifier.add({message.queue for message in messages})

        self._cursor.drop_all()
        self._executor.transact(put)
        self._notifier.notify_added()

    def _store_one(self, message: Message, rows: Rows) -> set[str]:
        row = {
            "id": storable(message.id),
            "queue": message.queue,
            "rank": -message.priority,
            "handler": message.handler,
            "name": storable(message.name),
            "body": message.body,
            "unique": storable(message.unique),
            "now": self._executor.test_time(),
        }
        return {message.id} if rows(PUT_ONE, row) else set()

    def _parameters(self, messages: Sequence[Message], notify: Iterable[str] = ()) -> dict[str, Any]:
        """The columns of a batch, as arrays."""
        names, uniques = [m.name for m in messages], [m.unique for m in messages]
        dues, delays = [m.due for m in messages], [round(m.delay * MICROSECOND) for m in messages]
        return {
            "ids": text_array([m.id for m in messages]),
            "queues": text_array([m.queue for m in messages]),
            "ranks": number_array([-m.priority for m in messages]),
            "handlers": text_array([m.handler for m in messages]),
            "names": text_array(names if names.count(None) < len(names) else ()),
            "dues": number_array(dues if any(dues) else ()),
            "delays": number_array(delays if any(delays) else ()),
            "bodies": ByteaArray([m.body for m in messages]),
            "uniques": text_array(uniques if uniques.count(None) < len(uniques) else ()),
            "tags": text_array(stored_tags(m) for m in messages) if _are_tagged(messages) else None,
            "notify": text_array(notify),
            "now": self._executor.test_time(),
        }


def _store_many(messages: Sequence[Message], values: dict[str, Any], rows: Rows) -> set[str]:
    """The ids that are new. A batch without `unique` jobs is expected to be new."""
    if len(messages) > 1 and values["uniques"] == text_array(()):
        try:
            rows(PUT_NEW_TAGGED if _are_tagged(messages) else PUT_NEW, values)
        except psycopg.errors.UniqueViolation:
            logger.debug("a message of a batch is known already, or twice in it", exc_info=True)
        else:
            return {message.id for message in messages}
    return {id for (id,) in rows(put_statement(messages), values)}


def put_statement(messages: Sequence[Message]) -> str:
    """The statement that stores these messages; one for tags takes the server longer."""
    return PUT_TAGGED if _are_tagged(messages) else PUT


def _are_tagged(messages: Sequence[Message]) -> bool:
    return any(message.tags for message in messages)


def _in_order(messages: Sequence[Message], stored: set[str]) -> list[str]:
    return list(dict.fromkeys(message.id for message in messages if message.id in stored))
