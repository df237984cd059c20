"""The `closure` handler: runs a callable in the process that enqueued it; the message holds only a token."""

import inspect
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.errors import InvalidPayload, Refused

MAX_DEAD_CLOSURES = 1000  # kept so that dead letters can be replayed; a closure may hold much memory


class Closures:
    """The callables of closure jobs, by token; each is kept until it has succeeded.

    As the payload shape of the handler it packs a callable into its token.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Callable[[], Any]] = {}
        self._dead: deque[str] = deque()
        self._lock = threading.Lock()
        self._decoder = msgspec.json.Decoder(str)

    def pack(self, payload: Any) -> bytes:
        if not callable(payload):
            raise InvalidPayload(f"a closure job needs a callable, got {type(payload).__qualname__}")
        if inspect.iscoroutinefunction(payload):
            raise InvalidPayload("a closure job needs a plain callable; make a coroutine function a job with @app.job")
        token = secrets.token_hex(16)
        with self._lock:
            self._waiting[token] = payload
        return msgspec.json.encode(token)

    def unpack(self, raw: bytes) -> str:
        return self._decoder.decode(raw)

    def run(self, context: Context, token: str) -> Any:
        closure = self._waiting.get(token)
        if closure is None:
            raise Refused(
                "this closure is not in this process: it has already run, or another process enqueued it; "
                "make it a function with @app.job, then any process can run it"
            )
        try:
            result = closure()
        except BaseException:
            if context.attempt > context.max_retries:
                self._keep_for_replay(token)
            raise
        self._waiting.pop(token, None)
        return result

    def _keep_for_replay(self, token: str) -> None:
        """Keep the closure of a dead letter; delete the oldest one above the limit."""
        with self._lock:
            self._dead.append(token)
            if len(self._dead) > MAX_DEAD_CLOSURES:
                self._waiting.pop(self._dead.popleft(), None)


def closure_handler() -> Handler:
    """Payload: a callable without arguments; result: what it returns."""
    closures = Closures()
    return Handler(key="closure", shape=closures, call=closures.run, is_async=False, in_process=True)
