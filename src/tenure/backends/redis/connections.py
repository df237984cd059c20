"""Connections: commands to one server, each on a connection that nobody else uses meanwhile.

The connection class of redis-py is spoken to directly: address, TLS, login and parsing are its own, while its client
with pool, retries and callbacks would double the CPU of a command (docs/adr/0013).
Nothing is retried here: after an error nobody knows whether a command took effect, and only the verbs can tell.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.retry import Retry

from tenure.errors import BackendError, BackendUnavailable

Word = bytes | str | int | float
_WAIT_SLICE = 5.0  # the longest that one command may block, so that its connection is soon known to be alive
DOWN = (redis.ConnectionError, redis.TimeoutError, OSError)
_NOT_NOW = (redis.exceptions.ReadOnlyError, redis.exceptions.MasterDownError)
_NOT_NOW_EITHER = ("BUSY", "FAILOVER", "NOREPLICAS", "UNBLOCKED")  # those that redis-py has no class for


class Line(Protocol):
    """A way to the server or servers."""

    def ask(self, *command: Word) -> Any:
        """The reply; a ResponseError is raised, and so is BackendUnavailable, after which all is open."""
        ...

    def ask_each(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies, in few round trips; a refusal is among them as a value."""
        ...

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        """Block until one of these lists has something, and take it; false when the time is up."""
        ...

    def close(self) -> None: ...


class Connections:
    """As many connections as there are callers at once; the last one used is used first. Safe to fork."""

    def __init__(self, make: Callable[..., Any], options: dict[str, Any], timeout: float) -> None:
        self._make = make
        self._options = options
        self._timeout = timeout
        self._pid = os.getpid()
        self._free: list[Any] = []
        self._waiting: list[Any] = []

    def ask(self, *command: Word) -> Any:
        free, _ = self._mine()
        return _or_raise(self._talk(free, self._timeout, (command,))[0])

    def ask_each(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        free, _ = self._mine()
        return self._talk(free, self._timeout, commands) if commands else []

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        _, waiting = self._mine()
        command: tuple[Word, ...] = ("BLPOP", *keys, max(0.001, min(seconds, _WAIT_SLICE)))
        return _or_raise(self._talk(waiting, self._timeout + _WAIT_SLICE, (command,))[0]) is not None

    def close(self) -> None:
        for connections in self._mine():
            while connections:
                connections.pop().disconnect()

    def _mine(self) -> tuple[list[Any], list[Any]]:
        """The connections of this process: those of a parent are its own."""
        if self._pid != os.getpid():
            self._pid, self._free, self._waiting = os.getpid(), [], []
        return self._free, self._waiting

    def _talk(self, free: list[Any], timeout: float, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Send commands and read their replies; a refusal is a reply."""
        connection = free.pop() if free else self._open(timeout)
        try:
            for command in commands:
                connection.send_command(*command, check_health=False)
            replies = [_reply(connection) for _ in commands]
        except DOWN as error:
            connection.disconnect()
            raise BackendUnavailable(f"{self._where()} cannot be reached: {error}") from error
        except BaseException:
            connection.disconnect()  # replies are still to come, and must not be taken for those of others
            raise
        for reply in replies:
            if isinstance(reply, redis.ResponseError) and _is_passing(reply):
                connection.disconnect()  # the address may lead to another server by now
                raise BackendUnavailable(f"{self._where()} cannot serve at present: {reply}") from reply
        free.append(connection)
        return replies

    def _open(self, timeout: float) -> Any:
        connection = self._make(**self._options, socket_timeout=timeout)
        try:
            connection.connect()
        except redis.AuthenticationError as error:
            raise BackendError(f"{self._where()} refused the user or password of the URL: {error}") from error
        except (*DOWN, redis.ResponseError) as error:
            connection.disconnect()
            raise BackendUnavailable(f"{self._where()} cannot be reached: {error}") from error
        return connection

    def _where(self) -> str:
        place = self._options.get("path") or f"{self._options['host']}:{self._options.get('port', 6379)}"
        return f"the Redis server at {place}"


def open_connections(url: str, timeout: float) -> Connections:
    """Connections to the one server at this URL; the first is made when it is needed."""
    options: dict[str, Any] = {"host": "localhost", **parse_url(url)}  # type: ignore[no-untyped-call]
    make = options.pop("connection_class", Connection)
    if "path" in options:
        del options["host"]
    options |= {"socket_connect_timeout": timeout, "protocol": 2, "retry": Retry(NoBackoff(), 0)}
    return Connections(make, options, timeout)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def _is_passing(error: redis.ResponseError) -> bool:
    """What a server says that is changing roles or is busy is not about the command."""
    return isinstance(error, _NOT_NOW) or str(error).startswith(_NOT_NOW_EITHER)


def _or_raise(reply: Any) -> Any:
    if isinstance(reply, redis.ResponseError):
        raise reply
    return reply
