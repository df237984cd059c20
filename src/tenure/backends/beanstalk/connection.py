"""Connection: one socket to beanstalkd, used by one thread at a time, with a deadline for every exchange.

Commands are sent many in one write and answered in their order. Whatever goes wrong closes it, and with it
the server takes back every job that was reserved here.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.protocol import Reply, Stream
from tenure.errors import BackendUnavailable

PIPELINE = 500  # commands a write; fewer mean more wake-ups, and those cost more than the commands
_CHUNK = 262_144
_MOST_BYTES = 1 << 20  # a write, so that its deadline fits slow lines too
_MANY = 16
_COMMAND = 5e-6  # seconds, the server's for one: it sends each reply by itself, and to wake up for each costs more


class Broken(BackendUnavailable):
    """The connection is gone; `replies` are those that came before."""

    def __init__(self, message: str, replies: list[Reply]) -> None:
        super().__init__(message)
        self.replies = replies


class Connection:
    """Hold `lock` while using it; `tubes` are those it watches."""

    def __init__(self, address: tuple[str, int], number: int, patience: float) -> None:
        """`patience` is how many seconds the server may take to answer."""
        self.number = number
        self.lock = threading.Lock()
        self.is_open = True
        self._name = f"beanstalkd at {address[0]}:{address[1]}"
        self._patience = patience
        self._stream = Stream()
        self._tubes: tuple[bytes, ...] = (b"default",)
        try:
            self._socket = socket.create_connection(address, timeout=patience)
        except OSError as error:
            raise BackendUnavailable(f"{self._name} cannot be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(
        self, commands: Sequence[bytes], wait: float = 0.0, meanwhile: Callable[[], None] | None = None
    ) -> list[Reply]:
        """Send commands, and return as many replies; the last may take `wait` seconds longer than usual.

        `meanwhile` is done while the server works on the last of them; it must not fail.
        """
        replies: list[Reply] = []
        try:
            for batch in _batches(commands):
                self._socket.settimeout(self._patience)
                self._socket.sendall(b"".join(batch))
                self._socket.settimeout(self._patience + wait)
                if meanwhile and len(replies) + len(batch) == len(commands):
                    meanwhile()
                self._read(len(batch), replies)
        except (OSError, ValueError) as error:
            self.close()
            raise Broken(f"the connection to {self._name} is lost: {error}", replies) from error
        return replies

    def watch(self, tubes: Sequence[bytes]) -> list[bytes]:
        """The commands after which just these tubes are watched."""
        wanted = tuple(tubes)
        before, self._tubes = self._tubes, wanted
        if before == wanted:
            return []
        added = [protocol.watch(tube) for tube in wanted if tube not in before]
        return [*added, *(protocol.ignore(tube) for tube in before if tube not in wanted)]

    def is_stale(self) -> bool:
        """Whether the server has closed its end while nobody looked."""
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True  # at its end, broken, or with a reply that nobody asked for

    def close(self) -> None:
        self.is_open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for a reply
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
            if missing >= _MANY:
                time.sleep(missing * _COMMAND)
            data = self._socket.recv(_CHUNK)
            if not data:
                raise ConnectionError("the server closed it")
            self._stream.feed(data)


def _batches(commands: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    if len(commands) <= PIPELINE and sum(map(len, commands)) <= _MOST_BYTES:
        if commands:
            yield commands
        return
    batch: list[bytes] = []
    size = 0
    for command in commands:
        if batch and (len(batch) == PIPELINE or size + len(command) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(command)
        size += len(command)
    if batch:
        yield batch
