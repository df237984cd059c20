"""Connections to MySQL and MariaDB: how they are opened, and how packets of statements run on them, with retries.

No statement uses RETURNING, which only MariaDB has. Several statements go in one packet. Rows are found by equality
with the leading columns of an index and a list of plain keys: a list with one tuple would scan the table.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection as Connection
from pymysql.constants import CLIENT

from tenure.backends.sql.connections import (
    GUARD_LOCK_SECONDS,
    IDLE_TRANSACTION_SECONDS,
    Connections,
    back_off,
)
from tenure.backends.sql.dialect import Row, Rows
from tenure.backends.sql.server_time import MYSQL_NOW
from tenure.clock import Clock, SystemClock
from tenure.errors import BackendError, BackendUnavailable, Unstorable

T = TypeVar("T")
BEGIN = "START TRANSACTION"
COMMIT = "COMMIT"
_LOCK = "SELECT get_lock(concat('tenure-', md5(database())), 5)"
_UNLOCK = "SELECT release_lock(concat('tenure-', md5(database())))"
_COLLATION = "utf8mb4_bin"
_EXACT_COLLATIONS = """
SELECT collation_name FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')
"""
_MAX_TRIES = 8
_LOCK_TRIES = 120  # of five seconds
_LOCK_WAITS = 6  # of GUARD_LOCK_SECONDS, for other rows than those of guards
_LOCK_TIMEOUT_CODE = 1205
_LOST_CODES = {1053, 1077, 1079, 1158, 1159, 1160, 1161, 1927, 4031}  # the server stops, or has cut the connection
_STATEMENT_LOG_CODE = 1665
_ROLLED_BACK_CODES = {_LOCK_TIMEOUT_CODE, 1213}  # a lock timeout, a deadlock
# What a server can set otherwise for all its sessions.
_SESSION_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET SESSION innodb_lock_wait_timeout = {lock}, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION completion_type = NO_CHAIN, sql_safe_updates = 0, sql_select_limit = 18446744073709551615",
)
# Otherwise MariaDB converts a long list into a temporary table and scans that. MySQL ends no idle transaction.
_MARIADB_SETTINGS = (
    f"SET SESSION in_predicate_conversion_threshold = 0, idle_transaction_timeout = {round(IDLE_TRANSACTION_SECONDS)}"
)
_IF_NEW = "ON CONFLICT DO NOTHING"
# After an equality MariaDB reads an index from the start of the matching part; it enters a range at the given place.
_AS_RANGE = r"BETWEEN :\1 AND concat(:\1, '')"


class MysqlServer:
    """Opens connections to one database; every socket has deadlines."""

    def __init__(self, login: dict[str, Any], timeout: float) -> None:
        self._login = login
        self._timeout = timeout
        host = login.get("unix_socket") or login.get("host")
        self.location = f"{host}/{login.get('database')}"

    def connect(self) -> Connection:
        """A connection; a statement outside a transaction commits by itself."""
        try:
            connection = pymysql.connect(
                **self._login,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
                connect_timeout=min(10.0, self._timeout),
                read_timeout=self._timeout,
                write_timeout=self._timeout,
            )
            with connection.cursor() as cursor:
                for statement in _SESSION_SETTINGS:
                    cursor.execute(statement.format(lock=round(GUARD_LOCK_SECONDS)))
                cursor.execute("SELECT version()")
                if "MariaDB" in str(cursor.fetchone()):
                    cursor.execute(_MARIADB_SETTINGS)
        except (pymysql.Error, OSError) as error:
            raise self.unavailable(error) from error
        return connection

    def unavailable(self, error: BaseException) -> BackendError:
        if error.args and error.args[0] == _STATEMENT_LOG_CODE:
            return BackendError(
                f"the MySQL database {self.location!r} cannot be used: binlog_format is STATEMENT, which does not "
                "allow the isolation level READ COMMITTED; set it to ROW or MIXED on the server"
            )
        return BackendUnavailable(f"the MySQL database {self.location!r} cannot be used: {message_of(error)}")


class MysqlSession:
    """Sends packets of statements on one connection; `now` is the time as an SQL expression."""

    def __init__(self, connection: Connection, now: Callable[[], str]) -> None:
        self._cursor = connection.cursor()
        self._now = now
        self.in_transaction = False

    def send(self, *statements: str) -> list[list[Row]]:
        """Send several statements in one packet; return the rows of each."""
        self._cursor.execute(";".join(statements))
        self.in_transaction = (self.in_transaction or statements[0] == BEGIN) and statements[-1] != COMMIT
        answers = [list(self._cursor.fetchall())]
        while self._cursor.nextset():
            answers.append(list(self._cursor.fetchall()))
        return answers

    def fill(self, template: str, *values: Any, **texts: object) -> str:
        """A statement: `values` are escaped and put in place of each %s, `texts` are SQL."""
        filled = template.format(now=self._now(), **texts) if "{" in template else template
        return self._cursor.mogrify(filled, values) if values else filled

    def rows(self, template: str, row: str, rows: Iterable[Sequence[Any]]) -> str:
        """A statement with many rows of values, all of one shape."""
        shape = row.format(now=self._now()) if "{" in row else row
        listed = list(rows)
        return template.replace("{rows}", self.escaped([shape] * len(listed), chain.from_iterable(listed)))

    def escaped(self, shapes: Sequence[str], values: Iterable[Any]) -> str:
        """Rows with their values in place of each %s; escaping them together halves the cost."""
        return self._cursor.mogrify(",".join(shapes), tuple(values))

    def quote(self, value: str) -> str:
        return self._cursor.mogrify("%s", (value,))

    def quoted(self, values: Iterable[str]) -> str:
        listed = list(values)
        return self.escaped(["%s"] * len(listed), listed)

    def neutral(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of a neutral statement."""
        self._cursor.execute(translated(statement), _bound(parameters) or None)
        return list(self._cursor.fetchall())


def numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in MySQL's notation, where `key` and `rank` are reserved words."""
    if statement.rstrip().endswith(_IF_NEW):
        statement = statement.replace("INSERT", "INSERT IGNORE", 1).replace(_IF_NEW, "")
    ranged = re.sub(r"= \(:(\w+)\)", _AS_RANGE, statement)
    quoted = re.sub(r"(?<![:`\w])(key|rank)\b(?!`)", r"`\1`", ranged)
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", quoted)


def _bound(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """MySQL has no empty list: a list with NULL matches no row."""
    return {name: value if value != [] else [None] for name, value in parameters.items()}


class MysqlExecutor:
    """Runs sessions on pooled connections, and again where the server rolled back or the connection was lost."""

    def __init__(self, server: MysqlServer, clock: Clock) -> None:
        self._server = server
        self._clock = None if isinstance(clock, SystemClock) else clock  # only tests pass a clock of their own
        self._connections: Connections[Connection] = Connections(server.connect, _close)

    def now(self) -> str:
        """The time as an SQL expression: the server's clock, or that of a test."""
        return str(self._clock.now()) if self._clock else MYSQL_NOW

    def time_in(self, rows: Rows) -> int:
        return self._clock.now() if self._clock else int(rows(f"SELECT {MYSQL_NOW}", {})[0][0])

    def ask(self, work: Callable[[MysqlSession], T]) -> T:
        return self._try(work)[0]

    def transaction(self, work: Callable[[MysqlSession], T], again: bool = True, lock_tries: int = _LOCK_WAITS) -> T:
        """The answer of `work`, which begins a transaction with its first packet; it is committed here."""
        return self._try(partial(_committed, work), again, lock_tries)[0]

    def transaction_and_cut(self, work: Callable[[MysqlSession], T]) -> tuple[T, bool]:
        """As `transaction`; also whether an unanswered try came before."""
        return self._try(partial(_committed, work))

    @contextmanager
    def migration(self) -> Iterator[Rows]:
        """Runs neutral statements while no other process migrates this database."""
        connection = self._connections.take()
        session = MysqlSession(connection, self.now)
        try:
            if not any(session.send(_LOCK)[0][0][0] for _ in range(_LOCK_TRIES)):
                raise BackendError(f"the database {self._server.location!r} has been migrating for ten minutes")
            yield _with_collation(session)
            session.send(_UNLOCK)
        except pymysql.Error as error:
            self._connections.drop(connection)
            raise self._server.unavailable(error) from error
        self._connections.give(connection)

    def close(self) -> None:
        self._connections.close()

    def _try(
        self, work: Callable[[MysqlSession], T], again: bool = True, lock_tries: int = _LOCK_WAITS
    ) -> tuple[T, bool]:
        """Try again what the server rolled back; where `again` allows it, also once after a lost connection."""
        was_cut = False
        for attempt in range(1, _MAX_TRIES + 1):
            connection = self._connections.take()
            try:
                answer = work(MysqlSession(connection, self.now))
            except pymysql.Error as error:
                lost = is_lost(error) or not _rolled_back(connection)
                (self._connections.drop if lost else self._connections.give)(connection)
                lock_tries -= error.args[:1] == (_LOCK_TIMEOUT_CODE,)
                if (lost and (was_cut or not again)) or attempt == _MAX_TRIES or not lock_tries:
                    raise self._server.unavailable(error) from error
                if not (lost or was_rolled_back(error)):
                    raise self._refusal(error) from error
                was_cut = was_cut or lost
                if not lost:
                    back_off(attempt)
            except BaseException:
                self._connections.drop(connection)
                raise
            else:
                self._connections.give(connection)
                return answer, was_cut
        raise AssertionError  # the last try returned or raised

    def _refusal(self, error: pymysql.Error) -> BackendError:
        if isinstance(error, pymysql.DataError | pymysql.IntegrityError):
            return Unstorable(f"MySQL cannot store a value on {self._server.location!r}: {message_of(error)}")
        if isinstance(error, pymysql.OperationalError):
            return self._server.unavailable(error)
        return BackendError(f"MySQL refused a statement on {self._server.location!r}: {message_of(error)}")


def _with_collation(session: MysqlSession) -> Rows:
    """Creates tables that distinguish 'a' from 'a ', where the server can; MySQL can from 8.0.17 on."""
    found = session.send(_EXACT_COLLATIONS)[0]
    collation = str(found[0][0]) if found else _COLLATION
    return lambda statement, parameters: session.neutral(statement.replace(_COLLATION, collation), parameters)


def _committed(work: Callable[[MysqlSession], T], session: MysqlSession) -> T:
    answer = work(session)
    if session.in_transaction:  # the last packet may have committed already, which saves a round trip
        session.send(COMMIT)
    return answer


def _rolled_back(connection: Connection) -> bool:
    try:
        connection.rollback()
    except pymysql.Error:
        return False
    return True


def _close(connection: Connection) -> None:
    with suppress(pymysql.Error):  # it may be closed already
        connection.close()


def message_of(error: BaseException) -> str:
    """The server's message, without its error number."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def was_rolled_back(error: pymysql.Error) -> bool:
    """A deadlock or a lock timeout: the server changed nothing, so the caller tries again."""
    return bool(error.args) and error.args[0] in _ROLLED_BACK_CODES


def is_lost(error: pymysql.Error) -> bool:
    """The connection is lost, and it is unknown whether the statement took effect."""
    if isinstance(error, pymysql.InterfaceError):
        return True
    code = error.args[0] if error.args else 0
    return code in _LOST_CODES or (isinstance(code, int) and 2000 <= code < 3000)
