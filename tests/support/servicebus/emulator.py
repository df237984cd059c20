"""Emulator: the broker in a thread of its own, for use in a `with`."""

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self
from unittest.mock import patch

from azure.servicebus._pyamqp.client import AMQPClient

from tests.support.servicebus.faults import Faults
from tests.support.servicebus.peer import Peer
from tests.support.servicebus.queue import Queue
from tests.support.servicebus.session import Entities, Session

_TICK = 0.01
_KEY = "c2VjcmV0"


def _keep_alive(client: Any) -> None:
    """The same as in the SDK but for its pauses of a second, for whose end each closing client waits."""
    last = time.monotonic()
    with suppress(Exception):
        while client._connection and not client._shutdown:
            if time.monotonic() - last >= client._keep_alive_interval:
                client._connection.listen(wait=client._socket_timeout, batch=client._link.current_link_credit)
                last = time.monotonic()
            time.sleep(0.01)


class Emulator:
    """`faults` says what goes wrong; queues are made before it starts, `lock` and the rest as in Queue."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.faults = Faults()
        self.queues: dict[str, Queue] = {}
        for name in names:
            queue = Queue(name, **options)
            assert queue.grave
            self.queues |= {name.lower(): queue, queue.grave.name.lower(): queue.grave}
        self._entities = Entities(self.queues, _KEY, self.faults)
        self._peers: set[Peer] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="service-bus", daemon=True)
        self._quick_close = patch.object(AMQPClient, "_keep_alive", _keep_alive)

    @property
    def connection_string(self) -> str:
        access = f"SharedAccessKeyName=root;SharedAccessKey={_KEY}"
        return f"Endpoint=sb://127.0.0.1:{self.port};{access};UseDevelopmentEmulator=true"

    def __enter__(self) -> Self:
        self._quick_close.start()
        self._thread.start()
        self.port = self.do(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self._quick_close.stop()
        self.do(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        with warnings.catch_warnings():  # the SDK leaves sockets of lost connections to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def do(self, act: Callable[[], Any]) -> Any:
        """Do something where the broker runs, between two of its steps."""

        async def call() -> Any:
            found = act()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    def cut(self) -> None:
        """Drop every connection."""
        self.do(lambda: [peer.cut() for peer in list(self._peers)])

    def empty(self) -> None:
        """Forget every message."""
        self.do(lambda: [queue.empty() for queue in self.queues.values()])

    def lose_locks(self, name: str) -> None:
        self.do(self.queues[name].lose_locks)

    def joined(self, peer: Peer) -> None:
        self._peers.add(peer)

    def left(self, peer: Peer) -> None:
        self._peers.discard(peer)

    def session(self, peer: Peer, channel: int) -> Session:
        return Session(peer, channel, self._entities)

    async def _start(self) -> int:
        self._server = await self._loop.create_server(lambda: Peer(self), "127.0.0.1", 0)
        self._ticking = self._loop.create_task(self._tick())
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        self._ticking.cancel()
        self._server.close()
        for peer in list(self._peers):
            peer.cut()
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            for queue in self.queues.values():
                queue.tick()
