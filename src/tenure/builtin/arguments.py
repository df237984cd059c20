"""Whether the arguments in a message are of the shape that was declared; pure functions."""

import re
from collections.abc import Sequence

from tenure.errors import Refused
from tenure.permissions import Argument

MAX_LENGTH = 4096
MAX_COUNT = 256


def check_arguments(subject: str, given: Sequence[str], declared: Sequence[Argument]) -> None:
    """Raise Refused, naming the place, unless each argument is one that its place allows."""
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
    """Refuse what no program could be given."""
    if len(given) > MAX_COUNT:
        raise Refused(f"{subject} was given {len(given)} arguments, more than {MAX_COUNT}")
    for position, text in enumerate(given):
        if len(text) > MAX_LENGTH or "\0" in text:
            raise Refused(f"argument {position + 1} of {subject} has a NUL or more than {MAX_LENGTH} characters")


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
