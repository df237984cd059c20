"""What the built-in handlers check before they run a job: its payload, and its arguments against declared rules.

The check runs twice. At enqueue, so that the caller gets the refusal; and in the worker, because its own settings
decide and any holder of a key can send a message.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from tenure.definition.payload import Shape
from tenure.errors import Refused
from tenure.permissions import Argument

MAX_ARGUMENT_LENGTH = 4096
MAX_ARGUMENTS = 256


class CheckedShape:
    """A payload shape that also runs `check` when it packs a payload."""

    def __init__(self, shape: Shape, check: Callable[[Any], object]) -> None:
        self._shape = shape
        self._check = check

    def pack(self, payload: Any) -> bytes:
        raw = self._shape.pack(payload)
        self._check(self._shape.unpack(raw))
        return raw

    def unpack(self, raw: bytes) -> Any:
        return self._shape.unpack(raw)


def check_arguments(subject: str, given: Sequence[str], declared: Sequence[Argument]) -> None:
    """Raise Refused, with the position, unless each argument follows the rule for its position."""
    check_texts(subject, given)
    least = sum(not rule.optional for rule in declared)
    endless = bool(declared) and declared[-1].repeat
    if len(given) < least or (len(given) > len(declared) and not endless):
        most = "any number" if endless else str(len(declared))
        raise Refused(f"{subject} was given {len(given)} arguments; its rules take {least} to {most}")
    for position, text in enumerate(given):
        rule = declared[min(position, len(declared) - 1)]
        if not allows(rule, text):
            raise Refused(f"argument {position + 1} of {subject} is {text!r:.80}, which its rule does not allow")


def check_texts(subject: str, given: Sequence[str]) -> None:
    """Refuse arguments that cannot be passed to a program."""
    if len(given) > MAX_ARGUMENTS:
        raise Refused(f"{subject} was given {len(given)} arguments, more than {MAX_ARGUMENTS}")
    for position, text in enumerate(given):
        if len(text) > MAX_ARGUMENT_LENGTH or "\0" in text:
            raise Refused(
                f"argument {position + 1} of {subject} has a NUL or more than {MAX_ARGUMENT_LENGTH} characters"
            )


def allows(rule: Argument, text: str) -> bool:
    if rule.fixed is not None:
        return text == rule.fixed
    if rule.one_of:
        return text in rule.one_of
    if rule.integer is not None:
        return re.fullmatch(r"-?[0-9]{1,18}", text) is not None and rule.integer[0] <= int(text) <= rule.integer[1]
    if text.startswith("-") and not rule.dash:
        return False
    return re.fullmatch(rule.pattern or "", text) is not None
