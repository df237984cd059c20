"""Writes jobs into the outbox on a connection of the caller; the transaction belongs to the caller.

No driver is imported here, because the caller may use another one than Tenure. Nothing commits, except on a connection
to SQLite or PostgreSQL that commits every statement by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import msgspec

from tenure.backends.messages import Message
from tenure.backends.sql import migrations
from tenure.backends.sql.async_connections import (
    AsyncConnection,
    Steps,
    aiosqlite_connection,
    found_async_connection,
    is_async,
    rows_on_async,
    run_steps_async,
)
from tenure.backends.sql.connections import found_connection
from tenure.backends.sql.dialect import Row, stored_tags
from tenure.backends.sql.server_time import MYSQL_NOW, POSTGRESQL_NOW
from tenure.backends.sql.steps import run_steps
from tenure.clock import MICROSECOND, Clock, SystemClock
from tenure.definition.payload import plain_text
from tenure.errors import BackendError, SchemaError

TABLE = "tenure_outbox"
_COLUMNS = "id, queue, handler, name, priority, only_one, tags, body, backend, due, created, ready_at"
_IN_TRANSACTION = 1  # a bit of the status that a MySQL server sends with every answer
_ROWS = 500  # of one statement on MySQL
_STATEMENT_BYTES = 1_000_000  # of bodies in it; well below the smallest usual max_allowed_packet
_NO_TABLE_STATES = ("42P01", "42S02")
_NO_TABLE_CODE = 1146

SQLITE_INSERT = f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
MYSQL_INSERT = f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES "
MYSQL_ROW = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, IF(%s > 0, %s, IF(%s > 0, {now} + %s, 0)), {now}, {now})"
# One text, because a driver of another client than Tenure may not send arrays of bytes.
POSTGRESQL_INSERT = f"""
WITH stored AS (
    INSERT INTO {TABLE} ({_COLUMNS})
    SELECT e ->> 0, e ->> 1, e ->> 2, e ->> 3, (e ->> 4)::smallint, e ->> 5, e ->> 6, decode(e ->> 7, 'base64'),
        %(backend)s::text,
        CASE WHEN (e ->> 8)::bigint > 0 THEN (e ->> 8)::bigint
             WHEN (e ->> 9)::bigint > 0 THEN moment.now + (e ->> 9)::bigint ELSE 0 END,
        moment.now, moment.now
    FROM (SELECT {POSTGRESQL_NOW} AS now OFFSET 0) AS moment,
        json_array_elements(%(rows)s::json) WITH ORDINALITY AS item(e, place)
    ORDER BY place
    RETURNING number
)
SELECT count(*) FROM stored
"""
_encode = msgspec.json.Encoder(enc_hook=plain_text).encode  # an id may be the handle of a job


def write(connection: Any, backend: str, messages: Sequence[Message], clock: Clock) -> None:
    """Store messages for a backend; all of them or none."""
    raw, kind = found_connection(connection)
    with _explained():
        _writer(kind, connection)(raw, backend, messages, clock)


async def write_async(connection: Any, backend: str, messages: Sequence[Message], clock: Clock) -> None:
    """As `write`, on an async connection of the caller, or on one that is not."""
    if not is_async(connection):
        write(connection, backend, messages, clock)
        return
    found, kind = await found_async_connection(connection)
    if found is None or kind not in ("postgresql", "sqlite"):
        raise BackendError(
            f"{_name(connection)} cannot be awaited for the outbox; aenqueue takes an AsyncSession or AsyncConnection "
            "of SQLAlchemy to PostgreSQL or SQLite, an AsyncConnection of psycopg, or a connection of asyncpg or "
            "aiosqlite"
        )
    with _explained():
        if kind == "sqlite":
            raw = await aiosqlite_connection(found)
            await run_steps_async(raw, _sqlite_steps(raw, backend, messages, clock.now()))
        else:
            await _write_postgresql_async(found, backend, messages, clock)


def create_table(connection: Any) -> list[str]:
    """Create or update the table of the outbox on a connection of the caller; return the names of the steps taken."""
    raw, kind = found_connection(connection)
    _writer(kind, connection)
    with closing(raw.cursor()) as cursor:

        def rows(statement: str, _: Any) -> list[Row]:
            cursor.execute(statement)
            return [] if cursor.description is None else [_as_tuple(row) for row in cursor.fetchall()]

        return migrations.apply_missing(rows, kind or "", migrations.OUTBOX)


def _writer(kind: str | None, connection: Any) -> Callable[[Any, str, Sequence[Message], Clock], None]:
    if kind is None:
        raise BackendError(
            f"{_name(connection)} is no connection to a SQL database that Tenure knows; the outbox takes one of "
            "psycopg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy or Django"
        )
    return _WRITERS[kind]


def _write_sqlite(raw: Any, backend: str, messages: Sequence[Message], clock: Clock) -> None:
    with closing(raw.cursor()) as cursor:
        cursor.row_factory = None
        run_steps(cursor, _sqlite_steps(raw, backend, messages, clock.now()))


def _sqlite_steps(connection: Any, backend: str, messages: Sequence[Message], now: int) -> Steps[None]:
    autocommit = not connection.in_transaction and connection.isolation_level is None
    if not connection.in_transaction:
        yield "BEGIN IMMEDIATE", {}
    yield "SAVEPOINT tenure", {}
    try:
        yield SQLITE_INSERT, [(*_columns(m), m.body, backend, _due(m, now), now, now) for m in messages]
    except BaseException:
        yield "ROLLBACK" if autocommit else "ROLLBACK TO tenure", {}  # the caller must not commit a part
        raise
    yield "COMMIT" if autocommit else "RELEASE tenure", {}


def _due(message: Message, now: int) -> int:
    return message.due or (now + round(message.delay * MICROSECOND) if message.delay else 0)


def _write_postgresql(raw: Any, backend: str, messages: Sequence[Message], clock: Clock) -> None:
    with closing(raw.cursor()) as cursor:
        cursor.execute(POSTGRESQL_INSERT, _postgresql_values(backend, messages, clock))
        cursor.fetchall()


async def _write_postgresql_async(
    found: AsyncConnection, backend: str, messages: Sequence[Message], clock: Clock
) -> None:
    await rows_on_async(found)(POSTGRESQL_INSERT, _postgresql_values(backend, messages, clock))


def _postgresql_values(backend: str, messages: Sequence[Message], clock: Clock) -> dict[str, Any]:
    rows = [(*(_storable(each) for each in _columns(m)), m.body, m.due, round(m.delay * MICROSECOND)) for m in messages]
    now = None if isinstance(clock, SystemClock) else clock.now()
    return {"backend": backend, "rows": _encode(rows).decode(), "now": now}


def _storable(value: Any) -> Any:
    """PostgreSQL text cannot hold a NUL, so the replacement character U+FFFD is stored for it."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value


def _write_mysql(raw: Any, backend: str, messages: Sequence[Message], clock: Clock) -> None:
    if raw.get_autocommit() and not getattr(raw, "server_status", 0) & _IN_TRANSACTION:
        raise BackendError("this connection commits every statement by itself; begin a transaction on it first")
    row = MYSQL_ROW.format(now=MYSQL_NOW if isinstance(clock, SystemClock) else clock.now())
    with closing(raw.cursor()) as cursor:
        cursor.execute("SAVEPOINT tenure")
        try:
            for part in _parts(messages):
                values = [value for m in part for value in _mysql_values(m, backend)]
                cursor.execute(MYSQL_INSERT + ", ".join([row] * len(part)), values)
        except BaseException:
            cursor.execute("ROLLBACK TO SAVEPOINT tenure")  # the caller must not commit a part
            raise
        cursor.execute("RELEASE SAVEPOINT tenure")


def _mysql_values(m: Message, backend: str) -> tuple[Any, ...]:
    delay = round(m.delay * MICROSECOND)
    return (*_columns(m), m.body, backend, m.due, m.due, delay, delay)


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    left = iter(messages)
    while part := list(islice(left, 1)):
        size = len(part[0].body)
        for message in islice(left, _ROWS - 1):
            part.append(message)
            size += len(message.body)
            if size > _STATEMENT_BYTES:
                break
        yield part


def _columns(m: Message) -> tuple[Any, ...]:
    return (str(m.id), m.queue, m.handler, m.name, m.priority, m.unique, stored_tags(m))


_WRITERS = {"sqlite": _write_sqlite, "postgresql": _write_postgresql, "mysql": _write_mysql}


@contextmanager
def _explained() -> Iterator[None]:
    """Say how to create the table where it is missing; the errors of other drivers are recognised by their codes."""
    try:
        yield
    except Exception as error:
        if not is_table_missing(error):
            raise
        raise SchemaError(
            f"the database of this connection has no table {TABLE}: run `tenure outbox migrate --database URL`, or add "
            "the table to the migrations of the application (tenure.app.outbox.create_table)"
        ) from error


def is_table_missing(error: BaseException) -> bool:
    """Whether a statement failed because the database has no table of the outbox."""
    original = getattr(error, "orig", None) or error
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    is_missing = state in _NO_TABLE_STATES or original.args[:1] == (_NO_TABLE_CODE,) or "no such table" in str(original)
    return is_missing and TABLE in str(original)


def _as_tuple(row: Any) -> Row:
    return tuple(row.values()) if hasattr(row, "values") else tuple(row)


def _name(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"
