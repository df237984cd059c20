"""Server: how a connection to MySQL or MariaDB is opened, and what its errors mean."""

from typing import Any

import pymysql
from pymysql.connections import Connection as Connection
from pymysql.constants import CLIENT

from tenure.errors import BackendUnavailable

_LOST = {1053, 1077, 1079, 1158, 1159, 1160, 1161, 1927, 4031}  # said by a server that goes, or cut us off
_ROLLED_BACK = {1205, 1213}
_SET_UP = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = {lock}, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
)
# MariaDB turns long lists into a table of their own, which it then scans.
_MARIADB = "SET SESSION in_predicate_conversion_threshold = 0"


class Server:
    """One database; every socket has deadlines."""

    def __init__(self, login: dict[str, Any], patience: float) -> None:
        self._login = login
        self._patience = patience
        host = login.get("unix_socket") or login.get("host")
        self.place = f"{host}/{login.get('database')}"

    def connect(self) -> Connection:
        """A connection on which a statement outside a transaction is one of its own."""
        try:
            connection = pymysql.connect(
                **self._login,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
                connect_timeout=min(10.0, self._patience),
                read_timeout=self._patience,
                write_timeout=self._patience,
            )
            with connection.cursor() as cursor:
                for statement in _SET_UP:
                    cursor.execute(statement.format(lock=max(1, round(self._patience / 3))))
                cursor.execute("SELECT version()")
                if "MariaDB" in str(cursor.fetchone()):
                    cursor.execute(_MARIADB)
        except (pymysql.Error, OSError) as error:
            raise self.unavailable(error) from error
        return connection

    def unavailable(self, error: BaseException) -> BackendUnavailable:
        return BackendUnavailable(f"the MySQL database {self.place!r} cannot be used: {said(error)}")


def said(error: BaseException) -> str:
    """What the server said, without the number before it."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)


def was_rolled_back(error: pymysql.Error) -> bool:
    """A deadlock, or a lock that was not given in time: nothing has happened, and trying again is right."""
    return bool(error.args) and error.args[0] in _ROLLED_BACK


def is_lost(error: pymysql.Error) -> bool:
    """The connection is gone, and nobody knows whether the statement happened."""
    if isinstance(error, pymysql.InterfaceError):
        return True
    code = error.args[0] if error.args else 0
    return code in _LOST or (isinstance(code, int) and 2000 <= code < 3000)
