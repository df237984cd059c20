"""The page for Prometheus of `tenure work --metrics-port`: for one worker, or for all workers of a supervisor.

The page has no password and names queues, so it is served on the loopback address unless the user names another host.
Each worker of a supervisor answers on its own socket in a private folder, and writes its last snapshot there when it
ends. If a worker is killed, what it counted since the last request is lost.
"""

import logging
import os
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Self

import msgspec

from tenure.app import Tenure
from tenure.app.outbox.gauges import outbox_gauges
from tenure.app.results import read_signals
from tenure.cli.errors import CommandError
from tenure.errors import BackendError
from tenure.metrics.collector import MemoryCollector
from tenure.metrics.counters import Snapshot, WorkerCounters, merge_snapshots, start_at_zero, take_snapshot
from tenure.metrics.prometheus import check_installed, render
from tenure.metrics.queue_signals import Gauge, backend_up_gauge, queue_gauges

logger = logging.getLogger(__name__)

_READER_TIMEOUT = 10.0  # for an HTTP client that sends nothing
_REQUEST_TIMEOUT = 30.0  # for a whole request, however slowly the client sends and reads
_MAX_CONNECTIONS = 32  # each has a thread and a file descriptor, which the worker needs for its children
_WARNING_INTERVAL = 60.0
_WORKER_TIMEOUT = 2.0  # for a worker that does not answer its supervisor
_QUEUES_MIN_AGE = 5.0  # seconds between two reads of the queues, however often the page is requested
_QUEUES_TIME_FACTOR = 50  # and at least this many times the duration of the last read: slow reads are rare
_LONGEST_TEMP_FOLDER = 50  # some systems allow only 104 characters for the address of a socket
_WITH_QUEUES = b"queues\n"
_decode = msgspec.json.Decoder(Snapshot).decode
ReadSnapshot = Callable[[bool], Snapshot]
_Connection = socket.socket | tuple[bytes, socket.socket]  # as the server of the standard library declares it


def serve_supervisor_metrics(stack: ExitStack, host: str, port: int) -> tuple["MetricsServer", Path]:
    """Serve one page for all workers; returns the server and the folder in which the workers answer."""
    folder = stack.enter_context(_private_folder())
    server = MetricsServer(host, port, WorkerSnapshots(folder).snapshot)
    return stack.enter_context(server), folder


def serve_worker_metrics(stack: ExitStack, app: Tenure, queues: Iterable[str], host: str, port: int) -> "MetricsServer":
    """Serve the page of this worker."""
    return stack.enter_context(MetricsServer(host, port, AppMetrics(app, queues).snapshot))


def answer_supervisor(stack: ExitStack, app: Tenure, queues: Iterable[str], folder: Path) -> None:
    """Let the supervisor of this worker read its metrics."""
    metrics = AppMetrics(app, queues)
    stack.enter_context(SnapshotServer(folder, lambda queues: metrics.snapshot(queues=queues)))


class MetricsServer:
    """An HTTP server for the page; it runs in daemon threads while the context is entered."""

    def __init__(self, host: str, port: int, read: Callable[[], Snapshot]) -> None:
        check_installed()
        try:
            self._server = _PageServer((host, port), _page_handler(read))
        except OSError as error:
            raise CommandError(
                f"the metrics page cannot be served at {host}:{port}: {error.strerror or error}; "
                "if another worker uses this port, choose another one"
            ) from error
        bound, port = self._server.server_address[:2]
        shown = f"[{bound!s}]" if ":" in str(bound) else bound
        self.url = f"http://{shown!s}:{port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, name="tenure-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _PageServer(ThreadingHTTPServer):
    """Refuses connections above a limit, and cuts those that take too long."""

    daemon_threads = True
    block_on_close = False
    _warn_again_at = 0.0

    def server_activate(self) -> None:
        self._cut_at: dict[_Connection, float] = {}
        super().server_activate()

    def process_request(self, request: "_Connection", client_address: object) -> None:
        now = time.monotonic()
        if len(self._cut_at) >= _MAX_CONNECTIONS:
            self.shutdown_request(request)
            if now >= self._warn_again_at:
                self._warn_again_at = now + _WARNING_INTERVAL
                logger.warning("the metrics page refuses requests: %d clients are connected", _MAX_CONNECTIONS)
            return
        self._cut_at[request] = now + _REQUEST_TIMEOUT
        super().process_request(request, client_address)

    def shutdown_request(self, request: "_Connection") -> None:
        super().shutdown_request(request)
        self._cut_at.pop(request, None)

    def service_actions(self) -> None:
        """Called between requests, and twice a second; the thread of a request ends when its connection is cut."""
        now = time.monotonic()
        for request, cut_at in list(self._cut_at.items()):
            if now >= cut_at and isinstance(request, socket.socket):
                with suppress(OSError):  # it has ended meanwhile
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's signature
        """A client that disconnects is normal; any other error is a bug in Tenure."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("the metrics page could not be made")


def _page_handler(read: Callable[[], Snapshot]) -> type[BaseHTTPRequestHandler]:
    class PageHandler(BaseHTTPRequestHandler):
        timeout = _READER_TIMEOUT

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/", "/metrics"):
                self.send_error(404)
                return
            page, kind = render(read(), self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

        def version_string(self) -> str:
            return "tenure"

    return PageHandler


class AppMetrics:
    """The metrics of one app: what this process counted, and the state of the queues.

    The queues are read from the backend again only after a while.
    """

    def __init__(self, app: Tenure, queues: Iterable[str] = ()) -> None:
        """`queues` appear on the page from the start, with counters of 0."""
        self._app = app
        self._lock = threading.Lock()
        self._read_again_at = 0.0
        self._gauges: tuple[Gauge, ...] = ()
        self._collector = _collector_of(app)
        start_at_zero(self._collector, queues)

    def snapshot(self, *, queues: bool = True) -> Snapshot:
        """Without `queues`, only what this process counted."""
        counted = take_snapshot(self._collector)
        return msgspec.structs.replace(counted, gauges=self._queue_gauges()) if queues else counted

    def _queue_gauges(self) -> tuple[Gauge, ...]:
        with self._lock:
            started = time.monotonic()
            if started >= self._read_again_at:
                self._gauges = (*self._read_queues(), *outbox_gauges(self._app))
                now = time.monotonic()
                self._read_again_at = now + max(_QUEUES_MIN_AGE, _QUEUES_TIME_FACTOR * (now - started))
            return self._gauges

    def _read_queues(self) -> tuple[Gauge, ...]:
        try:
            parts = self._app.parts()
            found = [] if parts.queues is None else read_signals(parts, self._app.clock)
        except BackendError as error:
            logger.warning("the metrics page shows no queues, because they cannot be read: %s", error)
            return (backend_up_gauge(False),)
        return (backend_up_gauge(True), *queue_gauges(found))


def _collector_of(app: Tenure) -> MemoryCollector:
    """The app's collector; if that is of another kind or missing, a second one."""
    if isinstance(app.metrics, MemoryCollector):
        return app.metrics
    collector = MemoryCollector()
    app.listen(WorkerCounters(collector))
    app.count_with(collector)
    return collector


class SnapshotServer:
    """In the worker: answers the supervisor's requests while the context is entered.

    `read` gets whether the supervisor wants the state of the queues too.
    """

    def __init__(self, folder: Path, read: ReadSnapshot) -> None:
        self._read = read
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._last = folder / f"{name}.last"
        starting = folder / f"{name}.starting"
        self._server = _SocketServer(str(starting), _socket_handler(read))
        starting.rename(folder / f"{name}.sock")  # it listens now; before, the supervisor would assume a crash
        self._thread = threading.Thread(target=self._server.serve_forever, name="tenure-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Write the last snapshot before closing the socket; otherwise the supervisor assumes a crash."""
        with suppress(OSError):  # the supervisor may have ended and removed its folder
            draft = self._last.with_suffix(".draft")
            draft.write_bytes(msgspec.json.encode(self._read(False)))
            draft.rename(self._last)
        self._server.shutdown()
        self._server.server_close()


class WorkerSnapshots:
    """In the supervisor: the sum of what all workers counted, including workers that have ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._latest: dict[str, Snapshot] = {}
        self._ended = Snapshot()

    def snapshot(self) -> Snapshot:
        """Ask every worker; the first one that answers with the state of the queues is the only one asked for it."""
        with self._lock:
            queues, running = True, []
            for path in sorted(self._folder.glob("*.sock")):
                answer = self._ask(path, queues=queues)
                if answer is not None:
                    running.append(answer)
                    queues = queues and not answer.gauges
            self._add_ended()
            return merge_snapshots([self._ended, *running])

    def _ask(self, path: Path, *, queues: bool) -> Snapshot | None:
        if path.with_suffix(".last").exists():
            return None
        try:
            answer = request_snapshot(path, queues=queues)
        except ConnectionRefusedError:  # the worker no longer runs
            self._end(path, self._latest.get(path.stem, Snapshot()))
            return None
        except (OSError, msgspec.MsgspecError):  # the worker is busy or is ending now
            return self._latest.get(path.stem)
        self._latest[path.stem] = msgspec.structs.replace(answer, gauges=())
        return answer

    def _add_ended(self) -> None:
        for path in self._folder.glob("*.last"):
            self._end(path.with_suffix(".sock"), _decode(path.read_bytes()))
            path.unlink()

    def _end(self, path: Path, last: Snapshot) -> None:
        self._latest.pop(path.stem, None)
        self._ended = merge_snapshots([self._ended, last])
        path.unlink(missing_ok=True)


def request_snapshot(path: Path, *, queues: bool) -> Snapshot:
    """Ask the worker at this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_WORKER_TIMEOUT)
        connection.connect(str(path))
        connection.sendall(_WITH_QUEUES if queues else b"\n")
        return _decode(b"".join(_received(connection)))


def _received(connection: socket.socket) -> Iterator[bytes]:
    while data := connection.recv(1 << 16):
        yield data


class _SocketServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's signature
        """The supervisor may have disconnected; any other error is a bug in Tenure."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("the metrics could not be sent to the supervisor")


def _socket_handler(read: ReadSnapshot) -> type[socketserver.StreamRequestHandler]:
    class SnapshotHandler(socketserver.StreamRequestHandler):
        timeout = _WORKER_TIMEOUT

        def handle(self) -> None:
            self.wfile.write(msgspec.json.encode(read(self.rfile.readline() == _WITH_QUEUES)))

    return SnapshotHandler


@contextmanager
def _private_folder() -> Iterator[Path]:
    """A new folder that only this user can open; its name is short because socket addresses must be."""
    temp = gettempdir()
    parent = temp if len(temp) < _LONGEST_TEMP_FOLDER else "/tmp"  # noqa: S108 - the folder in it is new and private
    with TemporaryDirectory(prefix="tenure-", dir=parent, ignore_cleanup_errors=True) as name:
        yield Path(name)
