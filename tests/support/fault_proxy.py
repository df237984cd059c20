"""FaultProxy: a TCP proxy between a client and a server that can be told to misbehave.

It runs in a thread of its own; every fault may be set at any moment and counts for open connections too.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

CHUNK = 65_536
_NO_LINGER = struct.pack("ii", 1, 0)  # closing then resets the connection


class FaultProxy:
    """Use as a context manager; connect to `port`, or to `url` when it was given a server's URL.

    `latency` is seconds each way. `swallow_requests` and `swallow_replies` lose what is sent while they are true.
    `cut_after` breaks the connections after so many more bytes of replies, `cut_requests_after` of requests; once.
    `refuse` closes new connections at once.
    """

    def __init__(self, server: str | int) -> None:
        parts = urlsplit(server if isinstance(server, str) else f"tcp://127.0.0.1:{server}")
        self._server = (parts.hostname or "127.0.0.1", parts.port)
        self._parts = parts
        self.latency = 0.0
        self.swallow_requests = False
        self.swallow_replies = False
        self.refuse = False
        self.cut_after: int | None = None
        self.cut_requests_after: int | None = None
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._listener = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._listener.sockets[0].getsockname()[1]
        login, at, _ = self._parts.netloc.rpartition("@")
        self.url = self._parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}").geturl()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def reset(self) -> None:
        """Break every open connection, with an RST and not a polite end."""
        self._run(self._abort())

    def heal(self) -> None:
        """Behave from now on; connections that were broken stay so."""
        self.latency = 0.0
        self.swallow_requests = self.swallow_replies = self.refuse = False
        self.cut_after = self.cut_requests_after = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refuse:
            return writer.transport.abort()
        try:
            from_server, to_server = await asyncio.open_connection(*self._server)
        except OSError:
            return writer.transport.abort()
        ends = {writer, to_server}
        self._writers |= ends
        await asyncio.gather(
            self._pump(reader, to_server, lambda: self.swallow_requests, "cut_requests_after"),
            self._pump(from_server, writer, lambda: self.swallow_replies, "cut_after"),
        )
        self._writers -= ends
        return None

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, swallow: Callable[[], bool], limit: str
    ) -> None:
        try:
            while data := await source.read(CHUNK):
                if self.latency:
                    await asyncio.sleep(self.latency)
                if swallow():
                    continue
                left = getattr(self, limit)
                sink.write(data[:left])
                await sink.drain()
                if left is not None:
                    setattr(self, limit, left - len(data) if len(data) < left else None)
                    if len(data) >= left:
                        return await self._abort()
        except OSError:
            pass  # the other end is gone, which is what faults are for
        finally:
            sink.close()

    async def _abort(self) -> None:
        for writer in self._writers:
            with suppress(OSError):  # closed already
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()

    async def _end(self) -> None:
        self._listener.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await self._abort()  # again and again: a connection to the server may have been on its way
            await asyncio.wait(others, timeout=0.1)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)
