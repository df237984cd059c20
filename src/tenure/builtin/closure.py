"""The `closure` handler: any callable, run in the process that enqueued it; the message holds but a token."""

import inspect
import secrets
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.errors import InvalidPayload, Refused


class Closures(Shape):
    """Callables that wait for their jobs, each kept until it has run well; a dead letter's can be replayed."""

    def __init__(self) -> None:
        super().__init__(str)
        self._waiting: dict[str, Callable[[], Any]] = {}
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

    def run(self, context: Context, token: str) -> Any:  # noqa: ARG002 - every handler is given it
        closure = self._waiting.get(token)
        if closure is None:
            raise Refused(
                "this closure is not in this process: it ran already, or was enqueued by another process; "
                "make it a function with @app.job, and any process can run it"
            )
        result = closure()
        self._waiting.pop(token, None)
        return result


def closure_handler() -> Handler:
    """Payload: a callable without arguments; result: what it returns."""
    closures = Closures()
    return Handler(key="closure", shape=closures, call=closures.run, is_async=False, in_process=True)
