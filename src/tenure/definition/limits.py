"""What a job may ask for: the bounds of its fields, the same for a Job that is made and for a message that is opened.

The types carry the bounds. msgspec checks them while it decodes a message; `Bound` checks them in a new Job.
What no type can express is a function here: the grammar of names, and the characters of a text.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args

from msgspec import Meta

from tenure.errors import InvalidJob

CENTURY = 3_155_760_000  # seconds; a longer time is a mistake
MAX_TEXT = 255  # characters of a name, an id or a key: databases index them
MAX_COUNT = 2**31 - 1  # databases keep counters in 32 bits
MAX_CRASHES = 100  # each may take a worker down
MAX_TAGS = 16  # of a job; each is one row of an index
MAX_TAG = 64  # characters

_COUNT = f"a whole number from 0 to {MAX_COUNT}"
Text = Annotated[str, Meta(max_length=MAX_TEXT, description="text or None")]
Priority = Annotated[int, Meta(ge=0, le=9, description="a whole number from 0 to 9 (higher runs sooner)")]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT, description=_COUNT)]
Crashes = Annotated[int, Meta(ge=0, le=MAX_CRASHES, description=f"a whole number from 0 to {MAX_CRASHES}")]
Limit = Annotated[int, Meta(ge=1, le=MAX_COUNT, description=f"a whole number from 1 to {MAX_COUNT}, or None")]
Length = Annotated[float, Meta(gt=0, le=CENTURY, description="more than 0 seconds and at most 100 years, or None")]
Delay = Annotated[float, Meta(ge=0, le=CENTURY, description="seconds from 0 to 100 years")]
Moment = Annotated[datetime, Meta(tz=True)]
Version = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Tags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=MAX_TAG)], ...], Meta(max_length=MAX_TAGS)]

_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
_TAG = re.compile(f"[^\0-\x1f\x7f-\x9f,\ud800-\udfff]{{1,{MAX_TAG}}}")  # backends write tags as one text, with commas
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL stores no NUL, and UTF-8 has no lone surrogates


class Bound(NamedTuple):
    """The bounds of one field, as its type states them."""

    field: str
    kind: type
    bounds: Meta
    is_optional: bool

    def check(self, value: Any) -> None:
        if value is None and self.is_optional:
            return
        if not (self._has_kind(value) and (self.kind is str or self._is_within(value))):
            raise InvalidJob(f"{self.field} must be {self.bounds.description}, got {shown(value)}")
        if isinstance(value, str):
            check_text(self.field, value)

    def _has_kind(self, value: Any) -> bool:
        if self.kind is int:
            return type(value) is int  # not a bool
        return isinstance(value, (int, float) if self.kind is float else self.kind) and not isinstance(value, bool)

    def _is_within(self, value: Any) -> bool:
        low, above, high = self.bounds.ge, self.bounds.gt, self.bounds.le
        return bool((low is None or value >= low) and (above is None or value > above) and value <= high)


def bounds_of(types: Mapping[str, Any]) -> tuple[Bound, ...]:
    """The bounds of the fields with these types; fields without bounds are left out."""
    found = []
    for field, declared in types.items():
        options = (declared, *get_args(declared))
        for option in options:
            bounds = getattr(option, "__metadata__", (None,))[0]
            if isinstance(bounds, Meta):
                found.append(Bound(field, get_args(option)[0], bounds, NoneType in options))
                break
    return tuple(found)


def check_text(field: str, text: str) -> None:
    """Refuse a text that some backend cannot store or index."""
    if len(text) > MAX_TEXT:
        raise InvalidJob(f"{field} has {len(text)} characters, more than {MAX_TEXT}")
    if bad := _UNSTORABLE.search(text):
        raise InvalidJob(
            f"{field} has the character {bad[0]!r} at position {bad.start()}, which not every backend can store"
        )


@lru_cache(maxsize=4096)
def is_queue(name: str) -> bool:
    """Whether every backend can have a queue of this name."""
    return _QUEUE.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def is_key(name: str) -> bool:
    """Whether this can name a handler."""
    return _KEY.fullmatch(name) is not None


def check_queue(queue: str) -> str:
    """The name itself, if every backend can have a queue of this name."""
    if not isinstance(queue, str) or not is_queue(queue):
        raise InvalidJob(
            f"{queue!r:.120} cannot name a queue; use 1 to 100 letters, digits, '.', '_' or '-', "
            "starting with a letter or digit"
        )
    return queue


def check_key(key: str) -> str:
    """The key itself, if it can name a handler."""
    if not isinstance(key, str) or not is_key(key):
        raise InvalidJob(f"{key!r:.220} cannot name a handler; use 1 to 200 letters, digits, '_', '.', ':', '/' or '-'")
    return key


def check_tags(tags: Any) -> None:
    """Refuse tags that some backend cannot index."""
    if not isinstance(tags, tuple):
        raise InvalidJob(f"tags must be a tuple of texts, got {shown(tags)}")
    if len(tags) > MAX_TAGS:
        raise InvalidJob(f"a job has at most {MAX_TAGS} tags, got {len(tags)}")
    for tag in tags:
        if not is_tag(tag):
            raise InvalidJob(
                f"{shown(tag)} cannot be a tag; use 1 to {MAX_TAG} characters without commas and control characters"
            )
    if len(set(tags)) < len(tags):
        raise InvalidJob(f"tags must differ from each other, got {shown(tags)}")


def is_tag(tag: Any) -> bool:
    """Whether every backend can index this tag."""
    return isinstance(tag, str) and _TAG.fullmatch(tag) is not None


def storable_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Those of the tags of a message, which may be forged, that every backend can index."""
    return tuple(dict.fromkeys(tag for tag in tags if is_tag(tag)))[:MAX_TAGS]


def shown(value: Any) -> str:
    """A value for a message; Python cannot write a number of more than 4300 digits."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return "a number of more than 4300 digits"
