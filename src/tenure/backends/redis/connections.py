"""Clients for one Redis server or a cluster; each command has a connection of its own while it runs.

The connection class of redis-py is used directly: it does address, TLS, login and parsing. The client of redis-py, with
its pool, retries and callbacks, would double the CPU of a command (docs/adr/0013).
A client retries nothing: after an error it is unknown whether a command took effect, and only the verbs can find out.
A verb repeats a call (`with_retries`), or remembers it until the server answers again (`Unconfirmed`).
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.retry import Retry

from tenure.backends.ends import Wakeup
from tenure.backends.messages import Lease
from tenure.errors import BackendError, BackendUnavailable

Argument = bytes | str | int | float
_CLUSTER_POLL_SECONDS = 0.05
_CLUSTER_MAX_BLOCK_SECONDS = 1.0
_SERVER_TICK_SECONDS = 0.1  # between two looks of an idle server for blocked commands whose time is over
_NODE_COMMANDS = ("INFO", "CONFIG")  # sent to the server in the URL: the other servers have the same configuration
_MAX_BLOCK_SECONDS = 5.0  # for one command, so that a dead connection is noticed soon
DOWN = (redis.ConnectionError, redis.TimeoutError, OSError)
_TEMPORARY_ERRORS = (redis.exceptions.ReadOnlyError, redis.exceptions.MasterDownError)
_TEMPORARY_PREFIXES = ("BUSY", "FAILOVER", "NOREPLICAS", "UNBLOCKED")  # errors that redis-py has no class for


class ServerClient:
    """Sends commands to one server, on as many connections as there are callers at once. Safe to fork."""

    def __init__(self, connection_class: Callable[..., Any], options: dict[str, Any], timeout: float) -> None:
        self._connection_class = connection_class
        self._options = options
        self._timeout = timeout
        self._pid = os.getpid()
        self._free: list[Any] = []
        self._waiting: list[Any] = []

    def ask(self, *command: Argument) -> Any:
        """The reply; after BackendUnavailable it is unknown whether the command took effect.

        A command that the server refuses raises BackendError, and NoScriptError if the server lacks the script.
        """
        free, _ = self._own_connections()
        return _or_raise(self._exchange(free, self._timeout, (command,))[0])

    def ask_each(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies, in few round trips; a ResponseError is among them as a value."""
        free, _ = self._own_connections()
        return self._exchange(free, self._timeout, commands) if commands else []

    def wait(self, keys: Sequence[str], seconds: float, is_exact: bool = False) -> bool:
        """Block until one of these lists has an item, and take it; False when the time is over.

        A server looks for blocked commands whose time is over only ten times a second. An exact wait is ended from
        here, at the cost of one more command.
        """
        _, waiting = self._own_connections()
        seconds = max(0.001, min(seconds, _MAX_BLOCK_SECONDS))
        block: tuple[Argument, ...] = ("BLPOP", *keys, seconds)
        commands = (("CLIENT", "ID"), block) if is_exact else (block,)
        read = partial(self._unblock, seconds) if is_exact else None
        return _or_raise(self._exchange(waiting, self._timeout + _MAX_BLOCK_SECONDS, commands, read)[-1]) is not None

    def subscribe(self, channel: str) -> "Subscription | None":
        """A connection that receives the messages of a channel; None if this user may not."""
        connection = self._open(self._timeout)
        try:
            connection.send_command("SUBSCRIBE", channel, check_health=False)
            reply = _reply(connection)
        except DOWN as error:
            connection.disconnect()
            raise BackendUnavailable(f"{self._where()} cannot be reached: {error}") from error
        if isinstance(reply, redis.ResponseError):
            connection.disconnect()
            return None
        return Subscription(connection, self._where())

    def close(self) -> None:
        for connections in self._own_connections():
            while connections:
                connections.pop().disconnect()

    def _own_connections(self) -> tuple[list[Any], list[Any]]:
        """The connections of this process: a child process does not use those of its parent."""
        if self._pid != os.getpid():
            self._pid, self._free, self._waiting = os.getpid(), [], []
        return self._free, self._waiting

    def _unblock(self, seconds: float, connection: Any, count: int) -> list[Any]:
        """The replies to CLIENT ID and to a blocking command, which this client ends after so many seconds.

        The server replies to the command in any case, with the item if it took one, so no item is lost.
        Where the user may not end commands, the server does it later.
        """
        id = _reply(connection)
        rest = seconds % 0.001  # can_read counts whole milliseconds
        if isinstance(id, int) and not connection.can_read(timeout=seconds - rest):
            time.sleep(rest)
            self.ask_each([("CLIENT", "UNBLOCK", id)])
        return [id, *_replies(connection, count - 1)]

    def _exchange(
        self,
        free: list[Any],
        timeout: float,
        commands: Sequence[Sequence[Argument]],
        read: Callable[[Any, int], list[Any]] | None = None,
    ) -> list[Any]:
        """Send commands and read their replies; an error of the server is a reply."""
        try:
            connection = free.pop()
        except IndexError:
            connection = self._open(timeout)
        try:
            for command in commands:
                connection.send_command(*command, check_health=False)
            replies = (read or _replies)(connection, len(commands))
        except DOWN as error:
            connection.disconnect()
            raise BackendUnavailable(f"{self._where()} cannot be reached: {error}") from error
        except BaseException:
            connection.disconnect()  # replies are still to come, and the next caller must not read them
            raise
        for reply in replies:
            if isinstance(reply, redis.ResponseError) and _is_temporary(reply):
                connection.disconnect()  # the address may belong to another server by now
                raise BackendUnavailable(f"{self._where()} cannot serve at present: {reply}") from reply
        free.append(connection)
        return replies

    def _open(self, timeout: float) -> Any:
        connection = self._connection_class(**self._options, socket_timeout=timeout)
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


class Subscription:
    """The messages of one channel; their contents do not matter."""

    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._where = where

    def wait(self, wakeup: Wakeup, seconds: float) -> bool:
        """Wait for a message or the wakeup, at most so many seconds; False if only the wakeup was set."""
        try:
            has_news = wakeup.wait(seconds, self._connection._sock.fileno())
            while has_news and self._connection.can_read(timeout=0):
                self._connection.read_response()
            return has_news
        except DOWN as error:
            raise BackendUnavailable(f"{self._where} cannot be reached: {error}") from error

    def close(self) -> None:
        self._connection.disconnect()


def open_server(url: str, timeout: float) -> ServerClient:
    """The client of the server at this URL; it connects at the first command."""
    options: dict[str, Any] = {"host": "localhost", **parse_url(url)}  # type: ignore[no-untyped-call]
    connection_class = options.pop("connection_class", Connection)
    if "path" in options:
        del options["host"]
    options |= {"socket_connect_timeout": timeout, "protocol": 2, "retry": Retry(NoBackoff(), 0)}
    return ServerClient(connection_class, options, timeout)


def _replies(connection: Any, count: int) -> list[Any]:
    return [_reply(connection) for _ in range(count)]


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def _is_temporary(error: redis.ResponseError) -> bool:
    """An error of a server that is busy or changes its role; the command may succeed later."""
    return isinstance(error, _TEMPORARY_ERRORS) or str(error).startswith(_TEMPORARY_PREFIXES)


def _or_raise(reply: Any) -> Any:
    if isinstance(reply, redis.exceptions.NoScriptError):
        raise reply
    if isinstance(reply, redis.ResponseError):
        raise translate_error(reply) from reply
    return reply


def translate_error(error: redis.ResponseError) -> BackendError:
    """The server's error in words for users."""
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return BackendError("Redis is out of memory and accepts no more jobs; raise maxmemory, or keep less history")
    if str(error).startswith("MISCONF"):
        return BackendError(f"Redis cannot write to its disk and accepts no more jobs: {error}")
    return BackendError(f"Redis refused a command: {error}")


class ClusterClient:
    """Sends commands to a cluster and follows its slots as they move."""

    def __init__(self, client: Any, node: ServerClient) -> None:
        self._client = client
        self._node = node

    def ask(self, *command: Argument) -> Any:
        return _or_raise(self._reply(command))

    def ask_each(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        return [self._reply(command) for command in commands]

    def wait(self, keys: Sequence[str], seconds: float, is_exact: bool = False) -> bool:
        """Block on one list; several lists may be on several servers, so they are polled in turn.

        The last part of an exact wait is polled too, because a server ends a command too late.
        """
        block = min(seconds - _SERVER_TICK_SECONDS if is_exact else seconds, _CLUSTER_MAX_BLOCK_SECONDS)
        if len(keys) == 1 and block > 0:
            return self.ask("BLPOP", *keys, max(0.001, block)) is not None
        give_up = time.monotonic() + seconds
        while True:
            if any(self.ask("LPOP", key) is not None for key in keys):
                return True
            left = give_up - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _CLUSTER_POLL_SECONDS))

    def subscribe(self, channel: str) -> None:  # noqa: ARG002 - no script of a cluster publishes
        return

    def close(self) -> None:
        self._client.close()
        self._node.close()

    def _reply(self, command: Sequence[Argument]) -> Any:
        """The reply; an error of the server is a reply."""
        try:
            if command[0] in _NODE_COMMANDS:
                return self._node.ask_each([command])[0]
            return self._client.execute_command(*command)
        except (*DOWN, redis.exceptions.RedisClusterException) as error:
            raise BackendUnavailable(f"the Redis Cluster cannot be reached: {error}") from error
        except redis.ResponseError as error:
            return error


def open_cluster(url: str, timeout: float) -> ClusterClient:
    """The cluster that the server at this URL belongs to."""
    try:
        client = redis.RedisCluster.from_url(
            url,
            socket_timeout=timeout + _CLUSTER_MAX_BLOCK_SECONDS,
            socket_connect_timeout=timeout,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )
    except (*DOWN, redis.exceptions.RedisClusterException) as error:
        raise BackendUnavailable(f"the Redis Cluster cannot be reached: {error}") from error
    return ClusterClient(client, open_server(url, timeout))


RedisClient = ServerClient | ClusterClient


T = TypeVar("T")
_RETRY_SECONDS = 2.0  # a restart takes about a second; after two the caller should know
_RETRY_DELAYS = (0.0, 0.02, 0.1, 0.3)


def with_retries(act: Callable[[], T], on_retry: Callable[[], None] = lambda: None) -> T:
    """Call `act`, and again after a lost connection, at least once and for two seconds at most."""
    give_up = time.monotonic() + _RETRY_SECONDS
    tries = 0
    while True:
        try:
            return act()
        except BackendUnavailable:
            tries += 1
            if tries > 1 and time.monotonic() > give_up:
                raise
            on_retry()
            time.sleep(_RETRY_DELAYS[min(tries, len(_RETRY_DELAYS)) - 1])


class Unconfirmed:
    """Calls without an answer: claims by queue and owner, settlements by job and fence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[tuple[str, str], None] = {}
        self._settled: set[tuple[str, int]] = set()

    def add_claim(self, queue: str, owner: str) -> None:
        with self._lock:
            self._claims[queue, owner] = None

    def take_claims(self) -> list[tuple[str, str]]:
        """The claims to ask about; the caller puts a claim back when there is no answer again."""
        if not self._claims:
            return []
        with self._lock:
            taken, self._claims = list(self._claims), {}
            return taken

    def add_settlements(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._settled |= {(lease.id, lease.fence) for lease in leases}

    def clear(self, leases: Iterable[Lease]) -> set[tuple[str, int]]:
        """Forget these leases, because the server answered; return those that were unconfirmed."""
        if not self._settled:
            return set()
        with self._lock:
            known = self._settled & {(lease.id, lease.fence) for lease in leases}
            self._settled -= known
            return known
