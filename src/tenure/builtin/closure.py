"""The `closure` handler: any callable, run in the process that enqueued it; the message holds but a token."""

import inspect
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.errors import InvalidPayload, Refused

MOST_DEAD = 1000  # closures of dead letters, kept for a replay: what they hold on to is not ours to keep for ever


class Closures(Shape):
    """Callables that wait for their jobs, each kept until it has run well; the last dead letters' can be replayed."""

    def __init__(self) -> None:
        super().__init__(str)
        self._waiting: dict[str, Callable[[], Any]] = {}
        self._dead: deque[str] = deque()
        self._lock = threading.Lock()

    def pack(self, payload: Any) -> bytes:
        if not callable(payload):
            raise InvalidPayload(f"a closure job needs something to call, got {type(payload).__qualname__}")
        if inspect.iscoroutinefunction(payload):
            raise InvalidPayload("a closure job needs a plain callable; make a coroutine function a job with @app.job")
        token = secrets.token_hex(16)
        with self._lock:
            self._waiting[token] = payload
        return msgspec.json.encode(token)

    def run(self, context: Context, token: str) -> Any:
        closure = self._waiting.get(token)
        if closure is None:
            raise Refused(
                "this closure is not in this process: it ran already, or was enqueued by another process; "
                "make it a function with @app.job, and any process can run it"
            )
        try:
            result = closure()
        except BaseException:
            if context.attempt > context.max_retries:
                self._bury(token)
            raise
        self._waiting.pop(token, None)
        return result

    def _bury(self, token: str) -> None:
        with self._lock:
            self._dead.append(token)
            if len(self._dead) > MOST_DEAD:
                self._waiting.pop(self._dead.popleft(), None)


def closure_handler() -> Handler:
    """Payload: a callable without arguments; result: what it returns."""
    closures = Closures()
    return Handler(key="closure", shape=closures, call=closures.run, is_async=False, in_process=True)
