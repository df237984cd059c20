"""WsgiDashboard: the same dashboard for WSGI servers; one event loop in a thread of its own answers all requests.

The loop is started at the first request, after a server has forked. Context variables of the request's thread are
known to the access hook, so a hook may use those of the host's framework.
"""

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Scope

from tenure.web.mount import AsgiDashboard
from tenure.web.requests import MAX_FORM_BYTES

_MAX_CHUNKS = 16  # of an answer that wait for the client
_READ_BYTES = 65_536

StartResponse = Callable[..., Any]
Environ = dict[str, Any]


class WsgiDashboard:
    """A WSGI application around an ASGI one."""

    def __init__(self, application: AsgiDashboard) -> None:
        self.application = application
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        exchange = _Exchange(_scope(environ), _body(environ))
        loop, context = self._running_loop(), contextvars.copy_context()
        loop.call_soon_threadsafe(lambda: exchange.start(loop, self.application, context))
        status, headers = exchange.head()
        start_response(f"{status} {_phrase(status)}", headers)
        return exchange.chunks()

    def close(self) -> None:
        """Wait for running actions, and stop the event loop; the app stays open."""
        self.application.close()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # a fork takes the loop along, but not its thread
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=self._loop.run_forever, name="tenure-wsgi", daemon=True)
                self._thread.start()
            return self._loop


class _Exchange:
    """One request: the event loop puts the parts of the answer, the thread of the server takes them."""

    def __init__(self, scope: Scope, body: bytes) -> None:
        self._scope = scope
        self._body = body
        self._answer: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # None: the application failed
        self._error: BaseException | None = None
        self._room = asyncio.Semaphore(_MAX_CHUNKS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop, application: ASGIApp, context: contextvars.Context) -> None:
        self._loop = loop
        self._task = loop.create_task(self._run(application), context=context)

    async def _run(self, application: ASGIApp) -> None:
        try:
            await application(self._scope, self._receive, self._send)
        except BaseException as error:
            self._error = error
            self._answer.put(None)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _receive(self) -> Message:
        body, self._body = self._body, b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await self._room.acquire()
        self._answer.put(message)

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Wait for the status and the headers."""
        message = self._take()
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        return message["status"], headers

    def chunks(self) -> Iterator[bytes]:
        """The body; if the client goes away, the server closes this iterator, and the application is stopped."""
        try:
            is_last = False
            while not is_last:
                message = self._take()
                is_last = not message.get("more_body", False)
                self._call(self._room.release)
                yield message.get("body", b"")
        finally:
            if self._task is not None and not self._task.done():
                self._call(self._task.cancel)

    def _take(self) -> Message:
        message = self._answer.get()
        if message is None:
            raise RuntimeError("the dashboard failed before its answer was complete") from self._error
        return message

    def _call(self, call: Callable[[], Any]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(call)


def _scope(environ: Environ) -> Scope:
    root = environ.get("SCRIPT_NAME", "").encode("latin-1").decode("utf-8", "replace")
    path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
    host, port = environ.get("REMOTE_ADDR"), str(environ.get("REMOTE_PORT", ""))  # Werkzeug: a number
    server = (environ.get("SERVER_NAME", ""), int(environ["SERVER_PORT"])) if environ.get("SERVER_PORT") else None
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": environ.get("SERVER_PROTOCOL", "HTTP/1.1").partition("/")[2],
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "root_path": root,
        "path": f"{root}{path}",
        "raw_path": quote(f"{root}{path}").encode(),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": _headers(environ),
        "client": (host, int(port) if port.isdigit() else 0) if host else None,
        "server": server,
        "wsgi_environ": environ,
    }


def _headers(environ: Environ) -> list[tuple[bytes, bytes]]:
    found = {name[5:]: value for name, value in environ.items() if name.startswith("HTTP_")}
    found |= {name: environ[name] for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)}
    return [
        (name.replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1"))
        for name, value in found.items()
    ]


def _body(environ: Environ) -> bytes:
    """The body of the request, up to one byte more than a form may have: the application refuses it then."""
    length = environ.get("CONTENT_LENGTH") or "0"
    wanted = min(int(length) if length.isdigit() else 0, MAX_FORM_BYTES + 1)
    parts: list[bytes] = []
    while wanted > 0 and (part := environ["wsgi.input"].read(min(wanted, _READ_BYTES))):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
