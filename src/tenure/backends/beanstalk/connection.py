"""Connections to beanstalkd: each is used by one thread at a time, with a deadline for every exchange.

A connection sends many commands in one write; the server answers in their order. Any error closes the connection, and
then the server takes back every job that it had reserved. So a lease belongs to the connection that reserved its job.
"""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.protocol import Reply, Stream, statistic
from tenure.backends.message_state import MessageState
from tenure.backends.messages import Lease
from tenure.errors import BackendUnavailable

MAX_COMMANDS = 500  # in one write; smaller writes mean more wake-ups, which cost more than the commands
_MAX_WRITE_BYTES = 1 << 20  # so that a slow network can send it before the deadline
_RECEIVE_BYTES = 262_144
# The server sends each reply by itself, and waking up for each costs more than sleeping while it works on many.
_MANY_REPLIES = 16
_SECONDS_PER_COMMAND = 5e-6


class ConnectionLost(BackendUnavailable):
    """The connection is closed; `replies` are those that came before."""

    def __init__(self, message: str, replies: list[Reply]) -> None:
        super().__init__(message)
        self.replies = replies


class BeanstalkConnection:
    """One socket; the caller holds `lock` while it uses it. The server may take `timeout` seconds to answer."""

    def __init__(self, address: tuple[str, int], number: int, timeout: float) -> None:
        self.number = number
        self.lock = threading.Lock()
        self.is_open = True
        self._name = f"beanstalkd at {address[0]}:{address[1]}"
        self._timeout = timeout
        self._stream = Stream()
        self._tubes: tuple[bytes, ...] = (b"default",)
        try:
            self._socket = socket.create_connection(address, timeout=timeout)
        except OSError as error:
            raise BackendUnavailable(f"{self._name} cannot be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(
        self, commands: Sequence[bytes], wait: float = 0.0, meanwhile: Callable[[], None] | None = None
    ) -> list[Reply]:
        """Send commands and return their replies; the last may take `wait` seconds longer than usual.

        `meanwhile` is called while the server works on the last batch; it must not fail.
        """
        replies: list[Reply] = []
        try:
            for batch in _batches(commands):
                self._socket.settimeout(self._timeout)
                self._socket.sendall(b"".join(batch))
                self._socket.settimeout(self._timeout + wait)
                if meanwhile and len(replies) + len(batch) == len(commands):
                    meanwhile()
                self._read(len(batch), replies)
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectionLost(f"the connection to {self._name} is lost: {error}", replies) from error
        return replies

    def watch(self, tubes: Sequence[bytes]) -> list[bytes]:
        """The commands that make the connection watch exactly these tubes."""
        wanted = tuple(tubes)
        before, self._tubes = self._tubes, wanted
        if before == wanted:
            return []
        added = [protocol.watch(tube) for tube in wanted if tube not in before]
        return [*added, *(protocol.ignore(tube) for tube in before if tube not in wanted)]

    def is_stale(self) -> bool:
        """Whether the server has closed the connection, or sent an unexpected reply, since the last use."""
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.is_open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a reply
        self._socket.close()

    def _read(self, count: int, replies: list[Reply]) -> None:
        until = len(replies) + count
        while True:
            taken = self._stream.take(until - len(replies))
            for reply in taken:
                if reply.word in protocol.ERRORS:
                    raise ValueError(f"the server answered {reply.word.decode()}")
                replies.append(reply)
            missing = until - len(replies)
            if not missing:
                return
            if missing >= _MANY_REPLIES:
                time.sleep(missing * _SECONDS_PER_COMMAND)
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the server closed it")
            self._stream.feed(data)


class Reservation(NamedTuple):
    """A lease with the state of its message; `expires` is monotonic time."""

    lease: Lease
    state: MessageState
    expires: float


class PooledConnection:
    """A connection and the leases that end with it, by the server's job id."""

    def __init__(self, connection: BeanstalkConnection) -> None:
        self.connection = connection
        self.held: dict[int, Reservation] = {}


class ConnectionPool:
    """Opens as many connections as threads need at the same time, and keeps them open."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._connections: dict[int, PooledConnection] = {}
        self._changing = threading.Lock()
        self._closed = False
        self._max_job_size: int | None = None

    @contextmanager
    def borrow(self, *, without_leases: bool = False) -> Iterator[PooledConnection]:
        """A connection for this thread alone; one `without_leases` may be used for a long wait."""
        pooled = self._find_idle(lambda each: not (without_leases and each.held)) or self._open()
        try:
            yield pooled
        finally:
            self._give_back(pooled)

    @contextmanager
    def borrow_number(self, number: int) -> Iterator[PooledConnection | None]:
        """The connection with this number, once no other thread uses it; None when it is lost with its leases."""
        pooled = self._connections.get(number)
        if pooled is None:
            yield None
            return
        pooled.connection.lock.acquire()
        try:
            yield pooled if pooled.connection.is_open else None
        finally:
            self._give_back(pooled)

    @contextmanager
    def temporary(self) -> Iterator[BeanstalkConnection]:
        """A connection that is closed after its use."""
        connection = self._connect()
        try:
            yield connection
        finally:
            connection.close()

    def max_job_size(self) -> int:
        """The most bytes that the server accepts for one job."""
        if self._max_job_size is None:
            with self.borrow() as pooled:
                (stats,) = pooled.connection.exchange([protocol.STATS])
                self._max_job_size = statistic(stats.data, b"max-job-size")
        return self._max_job_size

    def reservations(self) -> list[Reservation]:
        """Every lease that a connection of this pool holds."""
        return [held for pooled in list(self._connections.values()) for held in list(pooled.held.values())]

    def close(self) -> None:
        self._closed = True
        with self._changing:
            for pooled in self._connections.values():
                pooled.connection.close()
            self._connections.clear()

    def _find_idle(self, suits: Callable[[PooledConnection], bool]) -> PooledConnection | None:
        with self._changing:
            for number, pooled in list(self._connections.items()):
                if not suits(pooled) or not pooled.connection.lock.acquire(blocking=False):
                    continue
                if suits(pooled) and not pooled.connection.is_stale():
                    return pooled
                if suits(pooled):
                    del self._connections[number]
                    pooled.connection.close()
                pooled.connection.lock.release()
        return None

    def _open(self) -> PooledConnection:
        pooled = PooledConnection(self._connect())
        pooled.connection.lock.acquire()
        with self._changing:
            self._connections[pooled.connection.number] = pooled
        return pooled

    def _connect(self) -> BeanstalkConnection:
        if self._closed:
            raise BackendUnavailable("this backend is closed")
        return BeanstalkConnection(self._address, next(self._numbers), self._timeout)

    def _give_back(self, pooled: PooledConnection) -> None:
        if not pooled.connection.is_open:
            with self._changing:
                self._connections.pop(pooled.connection.number, None)
        pooled.connection.lock.release()


def _batches(commands: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    if len(commands) <= MAX_COMMANDS and sum(map(len, commands)) <= _MAX_WRITE_BYTES:
        if commands:
            yield commands
        return
    batch: list[bytes] = []
    size = 0
    for command in commands:
        if batch and (len(batch) == MAX_COMMANDS or size + len(command) > _MAX_WRITE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(command)
        size += len(command)
    if batch:
        yield batch
