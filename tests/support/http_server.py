"""An HTTP server on loopback that answers every connection with the same bytes, and records the requests."""

import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress


class Server:
    """`answer` is what is sent, or what is called with the connection once the request's head was read."""

    def __init__(
        self,
        answer: bytes | Callable[[socket.socket], None],
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self._answer = answer
        self._tls = tls
        self._socket = socket.create_server((address, 0))
        self.port = self._socket.getsockname()[1]
        self.requests: list[bytes] = []
        self.names: list[str | None] = []
        if tls:
            tls.sni_callback = lambda sock, name, context: self.names.append(name)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                self.requests.append(_request(connection))
                if callable(self._answer):
                    self._answer(connection)
                else:
                    connection.sendall(self._answer)

    def close(self) -> None:
        self._socket.close()


def _request(connection: socket.socket) -> bytes:
    """One request: its head, and as much of a body as that announces."""
    found = b""
    while (size := _size(found)) is None or len(found) < size:
        if not (data := connection.recv(65_536)):
            break
        found += data
    return found


def _size(found: bytes) -> int | None:
    head, end, _ = found.partition(b"\r\n\r\n")
    if not end:
        return None
    length = re.search(rb"content-length: (\d+)", head.lower())
    return len(head) + 4 + (int(length[1]) if length else 0)


def response(status: int = 200, body: bytes = b"", **headers: object) -> bytes:
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
