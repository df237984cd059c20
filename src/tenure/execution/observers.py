"""Observers of attempts: code around each attempt of a handler that measures or traces it, and cannot change it.

They run in the process and the context that call the handler, around middleware and the hooks of handler classes.
An observer that fails is logged, and the attempt goes on.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from tenure.execution.outcome import Outcome

if TYPE_CHECKING:
    from tenure.execution.attempt import RunningAttempt

logger = logging.getLogger(__name__)

Ended = Callable[[Outcome, BaseException | None], None]
"""Called with the outcome of an attempt, and with what was raised, if anything was."""


class AttemptObserver(Protocol):
    """`observe` is entered before the attempt and left after it; the function that it gives is called in between."""

    def observe(self, run: "RunningAttempt", /) -> AbstractContextManager[Ended]: ...


class Observed:
    """An attempt inside its observers; the caller runs `run`, and passes its outcome to `end`."""

    def __init__(self, run: "RunningAttempt", observers: Sequence[AttemptObserver]) -> None:
        self._raised: list[BaseException] = []
        self.run = structs.replace(run, raised=self._raised)
        self._observers = observers
        self._open: list[AbstractContextManager[Ended]] = []
        self._ended: list[Ended] = []

    def __enter__(self) -> "Observed":
        for observer in self._observers:
            try:
                entered = observer.observe(self.run)
                self._ended.append(entered.__enter__())
                self._open.append(entered)
            except Exception:
                logger.exception("an observer failed at the start of job %s", self.run.context.id)
        return self

    def end(self, outcome: Outcome, raised: BaseException | None = None) -> Outcome:
        """Tell the observers the outcome, the innermost first, and return it."""
        error = self._raised[-1] if self._raised else raised
        for ended in reversed(self._ended):
            try:
                ended(outcome, error)
            except Exception:
                logger.exception("an observer failed at the end of job %s", self.run.context.id)
        return outcome

    def __exit__(self, *exc_info: object) -> None:
        for entered in reversed(self._open):
            try:
                entered.__exit__(None, None, None)
            except Exception:
                logger.exception("an observer failed after the end of job %s", self.run.context.id)


def call_observed(run: "RunningAttempt", call: Callable[[], Any]) -> Any:
    """What `call` returns, inside the observers of its handler; for a caller that settles the job itself."""
    observers = run.attempt.handler.observers
    if not observers:
        return call()
    with Observed(run, observers) as observed:
        try:
            result = call()
        except BaseException as error:
            observed.end(observed.run.failed(error, run.started))
            raise
        observed.end(Outcome(kind="succeeded", started=run.started, seconds=perf_counter() - run.begun))
        return result
