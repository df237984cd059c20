"""Server: how a connection to PostgreSQL is opened, and how long it may be silent.

Behind a pooler in transaction mode no session setting survives, so none is made there: no prepared statements,
no LISTEN. A pooler is recognised by what it refuses, or by a process id that is not the server's.
"""

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenure.errors import BackendUnavailable

logger = logging.getLogger(__name__)

# Plans are made once and never scan a table: what is in the tables changes faster than statistics do.
# Nor is one batch compared with another row by row, which a planner that expects one row would do.
_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_nestloop": "off",
    "jit": "off",
}
_WATCHED: dict[str, str | int] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "fallback_application_name": "tenure",
    "client_encoding": "utf8",
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One that gives up on a server that does not answer."""

    patience = 30.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.patience)
        except psycopg.errors._WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {self.patience:g} s") from error


class Server:
    """One database, and whether a pooler stands before it."""

    def __init__(self, conninfo: str, patience: float, listen: str) -> None:
        given = conninfo_to_dict(conninfo)
        limits = {**_WATCHED, "connect_timeout": max(2, min(10, round(patience)))}
        watched = {name: value for name, value in limits.items() if name not in given}
        self._conninfo = make_conninfo(conninfo, **watched)
        self._options = str(given.get("options") or "")
        self._patience = patience
        self._is_sure = listen != "auto"
        self.pooled = listen == "off"
        self.place = f"{given.get('host', 'localhost')}/{given.get('dbname', '')}"

    def connect(self) -> Connection:
        """A connection on which every statement is a transaction of its own."""
        try:
            if not self.pooled:
                connection = self._connect_directly()
                if connection is not None:
                    return connection
                self.pooled = True
                logger.info("a pooler stands before %s: nothing is prepared, and workers look for jobs", self.place)
            return self._connect(self._options)
        except psycopg.Error as error:
            raise self.unavailable(error) from error

    def listen(self) -> Connection | None:
        """A connection that hears when somebody puts; none where a pooler would keep it from us."""
        connection = self.connect()
        if self.pooled:
            connection.close()
            return None
        try:
            connection.execute("LISTEN tenure")
        except psycopg.Error as error:
            quietly(connection.close)
            raise self.unavailable(error) from error
        return connection

    def unavailable(self, error: BaseException) -> BackendUnavailable:
        text = " ".join(str(error).split())
        return BackendUnavailable(f"the PostgreSQL database {self.place!r} cannot be used: {text}")

    def _connect_directly(self) -> Connection | None:
        """A connection with our settings; None when it turns out that a pooler is at the other end."""
        try:
            connection = self._connect(f"{self._settings()} {self._options}")
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" in str(error):
                return None
            raise
        if not self._is_sure:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            if row is None or row[0] != connection.info.backend_pid:
                quietly(connection.close)
                return None
            self._is_sure = True
        return connection

    def _connect(self, options: str) -> Connection:
        conninfo = make_conninfo(self._conninfo, options=options) if options else self._conninfo
        prepare = None if self.pooled else 1
        connection = Connection.connect(conninfo, autocommit=True, prepare_threshold=prepare)
        connection.patience = self._patience
        return connection

    def _settings(self) -> str:
        limits = {
            "statement_timeout": round(self._patience * 900),
            "lock_timeout": round(self._patience * 450),
            "idle_in_transaction_session_timeout": round(self._patience * 1000),
        }
        return " ".join(f"-c {name}={value}" for name, value in {**_PLANS, **limits}.items())


def quietly(close: Callable[[], None]) -> None:
    """Close what may be broken already."""
    try:
        close()
    except psycopg.Error:
        logger.debug("closing a connection failed", exc_info=True)
