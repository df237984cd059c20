"""The hooks of a handler class: which there are, how long each may take, and that the last cannot spoil the outcome."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tenure.definition.context import Context

logger = logging.getLogger(__name__)

Hook = Callable[..., Any]
_AT_ONCE = 0.001
_LAST_WORDS = 0.75  # of the second between the soft and the hard deadline


def hook_of(instance: Any, name: str) -> Hook | None:
    """An optional method of a handler."""
    hook: Hook | None = getattr(instance, name, None)
    return hook


def at_least(seconds: float | None) -> float | None:
    """A limit that has passed is a moment from now: 0 would be none."""
    return None if seconds is None else max(seconds, _AT_ONCE)


def last_words(subject: Context) -> float | None:
    """How long `after_run` may take: what is left of the timeout, and a little more after an attempt that used it up.

    It ends before the hard deadline does, which would make the outcome another.
    """
    return None if subject.deadline is None else at_least(subject.deadline + _LAST_WORDS - time.monotonic())


@contextmanager
def after_run(subject: Context) -> Iterator[None]:
    """Around the last word of a handler's class; whatever happens in it, the outcome stands."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        logger.exception("after_run of handler %r failed; the outcome stands", subject.handler)
