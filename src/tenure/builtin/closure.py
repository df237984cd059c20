"""The `closure` handler: runs a callable in the process that enqueued it; the message holds only a token."""

import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tenure.definition.callables import completed, is_async, refuse_generator, refuse_lazy
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.errors import Cancel, Fail, InvalidHandler, InvalidPayload, Refused

MAX_DEAD_CLOSURES = 1000  # kept so that dead letters can be replayed; a closure may hold much memory


class Closures:
    """The callables of closure jobs, by token; each is kept until it has succeeded or cancelled itself.

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
        if is_async(payload):
            raise InvalidPayload("a closure job needs a plain callable; make a coroutine function a job with @app.job")
        try:
            refuse_generator(payload, "the callable of a closure job")
        except InvalidHandler as error:
            raise InvalidPayload(str(error)) from None
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
        with self._keeping_dead(context, token):
            result = closure()
            if isinstance(result, Awaitable):
                return self._complete(context, token, result)
            refuse_lazy(result, "the closure")
        self._waiting.pop(token, None)
        return result

    async def _complete(self, context: Context, token: str, awaitable: Awaitable[Any]) -> Any:
        with self._keeping_dead(context, token):
            result = await completed(awaitable, "the closure")
        self._waiting.pop(token, None)
        return result

    @contextmanager
    def _keeping_dead(self, context: Context, token: str) -> Iterator[None]:
        try:
            yield
        except Cancel:
            self._waiting.pop(token, None)
            raise
        except BaseException as error:
            if context.attempt > context.max_retries or isinstance(error, Fail):
                self._keep_for_replay(token)
            raise

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
