"""DashboardServer: serves the dashboard with uvicorn until a signal stops it."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

DEFAULT_PORT = 8642
_BACKLOG = 128
_MAX_CONNECTIONS = 200
_STOP_SECONDS = 5
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DashboardServer:
    """Listens at once, so that the address is known; answers while `run` runs.

    Without a port it takes the default one, or a free one if that is taken.
    """

    def __init__(self, host: str, port: int | None) -> None:
        try:
            self._socket = _listen(host, DEFAULT_PORT if port is None else port)
        except OSError:
            if port is not None:
                raise
            self._socket = _listen(host, 0)
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """The address for the user's own browser; one of this host if it listens on all."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - not a place to listen
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def run(self, application: ASGIApp, *, root: str = "", trusted_proxies: str | None = None) -> None:
        """Answer until SIGINT or SIGTERM; headers of a proxy count only if they come from `trusted_proxies`."""
        server = uvicorn.Server(
            uvicorn.Config(
                AtRoot(application, root) if root else application,
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=trusted_proxies is not None,
                forwarded_allow_ips=trusted_proxies or "",
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        with _stopped_by_signals(server):
            server.run(sockets=[self._socket])

    def close(self) -> None:
        self._socket.close()


class AtRoot:
    """Puts the dashboard below a path, whether the proxy in front of it removes the path or not."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            is_below = path == self._root or path.startswith(f"{self._root}/")
            raw = scope.get("raw_path") or path.encode()
            scope = {
                **scope,
                "root_path": self._root,
                "path": path if is_below else f"{self._root}{path}",
                "raw_path": raw if is_below else self._root.encode() + raw,
            }
        await self._app(scope, receive, send)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """uvicorn raises the signal that stopped it once more: the process must then end as if nothing had happened."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a signal handler
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
