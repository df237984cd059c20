"""Serving: an ASGI application on a free loopback port, in a thread of this process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.support.waiting import eventually


@contextmanager
def served(application: Any) -> Iterator[str]:
    """The address of a server that answers with this application; it stops when the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="served")
        thread.start()
        try:
            eventually(lambda: server.started or not thread.is_alive())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
