"""Connections to PostgreSQL: how they are opened, and how statements run on them, with retries.

Behind a pooler in transaction mode no session setting survives, so none is made there: no prepared statements, no
LISTEN. A pooler is recognised by the startup parameters that it refuses, or by a process id that is not the server's.
"""

import logging
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus

from tenure.backends.sql.connections import IDLE_TRANSACTION_SECONDS, Connections, back_off
from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.server_time import POSTGRESQL_NOW
from tenure.clock import Clock, SystemClock
from tenure.errors import BackendError, BackendUnavailable, Unstorable

logger = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S", str, str | None)
NOW = POSTGRESQL_NOW
_MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(hashtext('tenure'), 0)"
_MAX_TRIES = 8
_MIGRATION_TIMEOUT = 600.0
# The server plans each statement once, and no plan scans a table: the tables change faster than their statistics.
# Nested loops are off, because a planner that expects one row would compare two batches row by row.
_PLANNER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_nestloop": "off",
    "jit": "off",
}
# What a database or a role can set otherwise for all its sessions.
_TRANSACTION_SETTINGS = {
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
}
_CONNECTION_DEFAULTS: dict[str, str | int] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "fallback_application_name": "tenure",
    "client_encoding": "utf8",
}
_BYTEA_OID, _BYTEA_ARRAY_OID = 17, 1001
_ARRAY_START = struct.Struct("!iiIii")  # dimensions, whether there are NULLs, type, number of elements, first index
_ELEMENT_LENGTH = struct.Struct("!i")


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that does not answer within `timeout` seconds."""

    timeout = 30.0

    @cached_property
    def reused_cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """A new cursor for each statement would take 28 instead of 16 µs, with `description`."""
        return self.cursor(binary=True)

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.timeout)
        except psycopg.errors._WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {self.timeout:g} s") from error


class PostgresServer:
    """Opens connections to one database; `pooled` says that a pooler is in front of it."""

    def __init__(self, conninfo: str, timeout: float, listen: str) -> None:
        given = conninfo_to_dict(conninfo)
        limits = {**_CONNECTION_DEFAULTS, "connect_timeout": max(2, min(10, round(timeout)))}
        defaults = {name: value for name, value in limits.items() if name not in given}
        self._conninfo = make_conninfo(conninfo, **defaults)
        self._options = str(given.get("options") or "")
        self._timeout = timeout
        self._is_pooler_known = listen != "auto"
        self.pooled = listen == "off"
        self.location = f"{given.get('host', 'localhost')}/{given.get('dbname', '')}"

    def connect(self) -> PostgresConnection:
        """A connection on which every statement is a transaction of its own."""
        try:
            if not self.pooled:
                connection = self._connect_directly()
                if connection is not None:
                    return connection
                self.pooled = True
                logger.info(
                    "a pooler is in front of %s: no statement is prepared, and workers poll for jobs", self.location
                )
            return self._connect(self._options)
        except psycopg.Error as error:
            raise self.unavailable(error) from error

    def listen(self) -> PostgresConnection | None:
        """A connection that receives notifications; None behind a pooler, which would not forward them."""
        connection = self.connect()
        if self.pooled:
            connection.close()
            return None
        try:
            connection.execute("LISTEN tenure")
        except psycopg.Error as error:
            close_quietly(connection.close)
            raise self.unavailable(error) from error
        return connection

    def unavailable(self, error: BaseException) -> BackendUnavailable:
        text = " ".join(str(error).split())
        return BackendUnavailable(f"the PostgreSQL database {self.location!r} cannot be used: {text}")

    def _connect_directly(self) -> PostgresConnection | None:
        """A connection with our settings; None when a pooler answers instead of the server."""
        try:
            connection = self._connect(f"{self._settings()} {self._options}")
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" in str(error):
                return None
            raise
        if not self._is_pooler_known:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            if row is None or row[0] != connection.info.backend_pid:
                close_quietly(connection.close)
                return None
            self._is_pooler_known = True
        return connection

    def _connect(self, options: str) -> PostgresConnection:
        conninfo = make_conninfo(self._conninfo, options=options) if options else self._conninfo
        prepare = None if self.pooled else 1
        connection = PostgresConnection.connect(conninfo, autocommit=True, prepare_threshold=prepare)
        connection.timeout = self._timeout
        connection.isolation_level = IsolationLevel.READ_COMMITTED  # of transactions: a later statement sees new rows
        connection.adapters.register_dumper(ByteaArray, ByteaArrayDumper)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in (None, "UTF8"):
            connection.close()
            raise BackendError(
                f"the PostgreSQL database {self.location!r} has the encoding {encoding} and cannot store every "
                "character; create it with ENCODING 'UTF8' TEMPLATE template0"
            )
        return connection

    def _settings(self) -> str:
        limits = {
            "statement_timeout": round(self._timeout * 900),
            "lock_timeout": round(self._timeout * 450),
            "idle_in_transaction_session_timeout": round(min(IDLE_TRANSACTION_SECONDS, self._timeout) * 1000),
        }
        settings = {**_PLANNER_SETTINGS, **_TRANSACTION_SETTINGS, **limits}
        return " ".join(f"-c {name}={value}" for name, value in settings.items())


class PostgresExecutor:
    """Runs statements on pooled connections, and again where the server rolled back or the connection was lost."""

    def __init__(self, server: PostgresServer, clock: Clock) -> None:
        self._server = server
        self._connections: Connections[PostgresConnection] = Connections(
            server.connect, lambda connection: close_quietly(connection.close)
        )
        # The server's clock counts, unless a test passes a clock of its own.
        self.test_time = (lambda: None) if isinstance(clock, SystemClock) else clock.now

    def ask(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
        """The rows of one statement; a neutral statement may bring its own `now`."""
        values = {"now": self.test_time(), **parameters}
        return self.run(lambda rows: rows(statement, values))[0]

    def run(self, work: Callable[[Rows], T], again: bool = True) -> tuple[T, bool]:
        """The answer of statements that each commit by themselves, and whether an unanswered try came before it."""
        return self._try(lambda connection: work(partial(rows_on, connection)), again)

    def transact(self, work: Callable[[Rows], T]) -> T:
        """The answer of statements in one transaction."""

        def transaction(connection: PostgresConnection) -> T:
            with connection.transaction():
                return work(partial(rows_on, connection))

        return self._try(transaction, again=False)[0]

    @contextmanager
    def migration(self) -> Iterator[Rows]:
        connection = self._connections.take()
        timeout, connection.timeout = connection.timeout, _MIGRATION_TIMEOUT
        try:
            with connection.transaction():
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("SET LOCAL lock_timeout = 0")
                connection.execute(_MIGRATION_LOCK)
                yield partial(rows_on, connection)
        except psycopg.errors.InvalidSchemaName as error:
            self._connections.drop(connection)
            raise BackendError(
                f"the search_path of the PostgreSQL database {self._server.location!r} names no schema that exists; "
                "set one, for example: ALTER ROLE app SET search_path = public"
            ) from error
        except psycopg.Error as error:
            self._connections.drop(connection)
            raise self._server.unavailable(error) from error
        connection.timeout = timeout
        self._connections.give(connection)

    def close(self) -> None:
        self._connections.close()

    def _try(self, work: Callable[[PostgresConnection], T], again: bool = True) -> tuple[T, bool]:
        """Try again what the server rolled back; where `again` allows it, also once after a lost connection."""
        was_cut = False
        for attempt in range(1, _MAX_TRIES + 1):
            connection = self._connections.take()
            try:
                answer = work(connection)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
                self._connections.give(connection)
                if attempt == _MAX_TRIES:
                    raise self._server.unavailable(error) from error
                back_off(attempt)
            except psycopg.Error as error:
                # A connection may be broken and not closed: it still waits for the answer to its statement.
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    self._connections.give(connection)
                    raise self._refusal(error) from error
                self._connections.drop(connection)
                if was_cut or not again:
                    raise self._server.unavailable(error) from error
                was_cut = True
            except BaseException:  # an error of the caller: its transaction must not go on
                close_quietly(connection.close)
                raise
            else:
                self._connections.give(connection)
                return answer, was_cut
        raise AssertionError  # the last try returned or raised

    def _refusal(self, error: psycopg.Error) -> BackendError:
        if isinstance(error, psycopg.DataError | psycopg.IntegrityError | psycopg.errors.ProgramLimitExceeded):
            return Unstorable(f"PostgreSQL cannot store a value on {self._server.location!r}: {error}")
        # A server is read-only while it is a standby: after a failover it accepts the statement.
        if isinstance(error, psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction):
            return self._server.unavailable(error)
        return BackendError(f"PostgreSQL refused a statement on {self._server.location!r}: {error}")


def rows_on(connection: PostgresConnection, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
    """Results come in binary: text costs the server 0.5 us more for each claimed job, and the client too."""
    cursor = connection.reused_cursor
    cursor.execute(translated(statement), parameters or None)  # pyright: ignore[reportArgumentType]
    return [] if cursor.rownumber is None else cursor.fetchall()


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in PostgreSQL's notation; a statement in that notation stays as it is."""
    with_arrays = re.sub(r"IN :(\w+)", r"= ANY(%(\1)s)", statement)
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", with_arrays)


def close_quietly(close: Callable[[], None]) -> None:
    """Close a connection that may be broken already."""
    try:
        close()
    except psycopg.Error:
        logger.debug("closing a connection failed", exc_info=True)


def number_array(values: Iterable[float]) -> str:
    """A column of a batch as one text in PostgreSQL's notation: a tenth of the cost of adapting each value."""
    return f"{{{','.join(map(str, values))}}}"


def text_array(values: Iterable[str | None]) -> str:
    """As `number_array`."""
    texts = list(values)
    present = [text for text in texts if text is not None]
    if len(present) == len(texts) > 0 and not _needs_escapes("".join(present)):
        return '{"' + '","'.join(present) + '"}'  # 0.06 µs for an id; one by one it takes 0.35
    return f"{{{','.join(map(_quoted, texts))}}}"


def bytes_array(values: Iterable[bytes]) -> str:
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


class ByteaArray:
    """As `bytes_array`, in binary, for our own connections; as text each byte is two digits."""

    def __init__(self, values: Sequence[bytes]) -> None:
        length = _ELEMENT_LENGTH.pack
        elements = [part for value in values for part in (length(len(value)), value)]
        self.encoded = b"".join([_ARRAY_START.pack(1, 0, _BYTEA_OID, len(values), 1), *elements])


class ByteaArrayDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEA_ARRAY_OID

    def dump(self, obj: ByteaArray) -> bytes:
        return obj.encoded


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    if _needs_escapes(value):
        value = storable(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def storable(text: S) -> S:
    """PostgreSQL text cannot hold a NUL, so the replacement character U+FFFD is stored for it."""
    return text if text is None or "\x00" not in text else text.replace("\x00", "\ufffd")


def _needs_escapes(text: str) -> bool:
    return '"' in text or "\\" in text or "\x00" in text
