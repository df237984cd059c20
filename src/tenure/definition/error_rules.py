"""ErrorRules: which errors of a handler are worth a retry, by its options `retry_on` and `give_up_on`."""

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tenure.definition.callables import check_callable, is_async, refuse_lazy
from tenure.errors import Cancel, CircuitOpen, Fail, Interrupt, InvalidHandler, Retry, Snooze

logger = logging.getLogger(__name__)

ErrorMatch = type[BaseException] | Sequence[type[BaseException]] | Callable[[Any], bool]
_Matches = Callable[[BaseException], bool]
_DECIDED = (Retry, Fail, Snooze, Cancel, CircuitOpen, Interrupt)  # these say themselves what happens to the job


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """An error that `give_up_on` matches is not retried; with `retry_on`, only errors that it matches are retried."""

    handler: str
    retry_on: _Matches | None
    give_up_on: _Matches | None

    def gives_up(self, error: BaseException) -> bool:
        """Whether no retry can help; False if a function of the user fails over the error.

        Of a group, one error to give up on is enough, and each error must be one to retry.
        """
        if isinstance(error, _DECIDED):
            return False
        try:
            if self.give_up_on is not None and _matches(self.give_up_on, error, any):
                return True
            return self.retry_on is not None and not _matches(self.retry_on, error, all)
        except (Exception, SystemExit):
            logger.exception(
                "retry_on or give_up_on of handler %r failed over a %s; the attempt counts as an ordinary failure",
                self.handler, type(error).__qualname__,
            )  # fmt: skip
            return False

    def check_retries(self, max_retries: int) -> None:
        """Refuse errors to retry for a handler whose jobs have no retries."""
        if self.retry_on is not None and max_retries == 0:
            raise InvalidHandler(
                f"handler {self.handler!r} has retry_on, but its jobs have no retries, because max_retries is 0; "
                "add max_retries=3, or set max_retries in the settings"
            )


def error_rules(handler: str, retry_on: ErrorMatch | None, give_up_on: ErrorMatch | None) -> ErrorRules | None:
    """The rules of a handler; None without any."""
    if retry_on is None and give_up_on is None:
        return None
    return ErrorRules(
        handler, _to_match(retry_on, f"retry_on of {handler!r}"), _to_match(give_up_on, f"give_up_on of {handler!r}")
    )


def _matches(matches: _Matches, error: BaseException, combine: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether the error matches or, if it is a group, any or all of its errors do."""
    if matches(error):
        return True
    if not isinstance(error, BaseExceptionGroup):
        return False
    return combine(_matches(matches, each, combine) for each in error.exceptions)


def _to_match(rule: Any, what: str) -> _Matches | None:
    if rule is None:
        return None
    if isinstance(rule, (type, list, tuple, set, frozenset)):
        classes = (rule,) if isinstance(rule, type) else tuple(rule)
        for each in classes:
            _check_class(each, what)
        return partial(_is_instance, classes)
    if not callable(rule):
        raise InvalidHandler(f"{what} must be exception classes, or a function of the error, got {rule!r:.80}")
    check_callable(rule, what)
    try:
        inspect.signature(rule).bind(None)
    except ValueError:  # a function in C does not say what it takes
        pass
    except TypeError:
        raise InvalidHandler(f"{what} must take one argument, the error; it takes {inspect.signature(rule)}") from None
    if is_async(rule):
        raise InvalidHandler(f"{what} is async, and nothing awaits it; write it as a plain function")
    return partial(_asks, rule)


def _check_class(each: Any, what: str) -> None:
    if not (isinstance(each, type) and issubclass(each, BaseException)):
        raise InvalidHandler(f"{what} must be exception classes, or a function of the error, got {each!r:.80}")
    if issubclass(each, _DECIDED):
        raise InvalidHandler(
            f"{what} names {each.__qualname__}, which cannot be matched: it is no error of the handler, and says by "
            "itself what happens to the job"
        )


def _is_instance(classes: tuple[type[BaseException], ...], error: BaseException) -> bool:
    return isinstance(error, classes)


def _asks(predicate: Callable[[Any], object], error: BaseException) -> bool:
    answer = predicate(error)
    refuse_lazy(answer, "retry_on or give_up_on")
    return bool(answer)
