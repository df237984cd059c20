"""The metrics page of `tenure work --metrics-port`: of one worker, or of all workers under a supervisor.

It is for whoever scrapes, on the loopback address unless told otherwise: it has no password and names queues.
"""

import logging
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tenure.cli.failures import CommandError
from tenure.metrics.page import check_installed, written
from tenure.metrics.snapshot import Snapshot

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # for a reader that says nothing


class MetricsPage:
    """While entered it is served, by threads that nothing waits for."""

    def __init__(self, host: str, port: int, read: Callable[[], Snapshot]) -> None:
        check_installed()
        try:
            self._server = _Server((host, port), _handler(read))
        except OSError as error:
            raise CommandError(
                f"the metrics page cannot be served at {host}:{port}: {error.strerror or error}; "
                "is another worker there, which needs a port of its own?"
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the server's words
        """A reader that went away is no news; anything else is a fault of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("the metrics page could not be made")


def _handler(read: Callable[[], Snapshot]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/", "/metrics"):
                self.send_error(404)
                return
            page, kind = written(read(), self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Reading is not worth a line."""

        def version_string(self) -> str:
            return "tenure"

    return Handler
