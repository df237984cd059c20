"""Gathering: workers under one supervisor tell it what they counted, so that one page tells of them all.

Each answers on a socket of its own in a private folder, and leaves its last words there when it ends.
A worker that is killed takes along what it counted since somebody last asked.
"""

import logging
import os
import secrets
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Self

import msgspec

from tenure.metrics.snapshot import Snapshot, added

logger = logging.getLogger(__name__)

_PATIENCE = 2.0  # for a worker that does not answer
_LONGEST = 50  # a system may allow 104 characters for the address of a socket
_WITH_QUEUES = b"queues\n"
_decode = msgspec.json.Decoder(Snapshot).decode
Read = Callable[[bool], Snapshot]


class Teller:
    """The worker's side: while entered it answers; `read` is given whether queues are wanted too."""

    def __init__(self, folder: Path, read: Read) -> None:
        self._read = read
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._last = folder / f"{name}.last"
        self._socket = folder / f"{name}.sock"
        self._server = _Server(str(self._socket), _handler(read))
        self._thread = threading.Thread(target=self._server.serve_forever, name="tenure-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The last words first: who finds nobody there and no last words takes the worker for dead."""
        with suppress(OSError):  # the supervisor may have gone, and its folder with it
            draft = self._last.with_suffix(".draft")
            draft.write_bytes(msgspec.json.encode(self._read(False)))
            draft.rename(self._last)
        self._server.shutdown()
        self._server.server_close()


class Gathering:
    """The supervisor's side: what all workers counted, those that have ended included."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, Snapshot] = {}
        self._ended = Snapshot()

    def snapshot(self) -> Snapshot:
        with self._lock:
            queues, lives = True, []
            for path in sorted(self._folder.glob("*.sock")):
                told = self._ask(path, queues=queues)
                if told is not None:
                    lives.append(told)
                    queues = queues and not told.gauges
            self._bury_ended()
            return added([self._ended, *lives])

    def _ask(self, path: Path, *, queues: bool) -> Snapshot | None:
        if path.with_suffix(".last").exists():
            return None
        try:
            told = asked(path, queues=queues)
        except ConnectionRefusedError:  # nobody is there any more
            self._end(path, self._known.get(path.stem, Snapshot()))
            return None
        except (OSError, msgspec.MsgspecError):  # it is busy, or ends just now
            return self._known.get(path.stem)
        self._known[path.stem] = msgspec.structs.replace(told, gauges=())
        return told

    def _bury_ended(self) -> None:
        for path in self._folder.glob("*.last"):
            self._end(path.with_suffix(".sock"), _decode(path.read_bytes()))
            path.unlink()

    def _end(self, path: Path, last: Snapshot) -> None:
        self._known.pop(path.stem, None)
        self._ended = added([self._ended, last])
        path.unlink(missing_ok=True)


def asked(path: Path, *, queues: bool) -> Snapshot:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_PATIENCE)
        line.connect(str(path))
        line.sendall(_WITH_QUEUES if queues else b"\n")
        return _decode(b"".join(_received(line)))


def _received(line: socket.socket) -> Iterator[bytes]:
    while data := line.recv(1 << 16):
        yield data


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the server's words
        """Whoever asked may have gone; anything else is a fault of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("what was counted could not be told")


def _handler(read: Read) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = _PATIENCE

        def handle(self) -> None:
            self.wfile.write(msgspec.json.encode(read(self.rfile.readline() == _WITH_QUEUES)))

    return Handler


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that only this user can look into; its name is short, because those of sockets must be."""
    place = gettempdir() if len(gettempdir()) < _LONGEST else "/tmp"  # noqa: S108 - the folder in it is new and ours
    with TemporaryDirectory(prefix="tenure-", dir=place, ignore_cleanup_errors=True) as name:
        yield Path(name)
