"""Suggestions: the known name that is most like a mistyped one, for error messages."""

from collections.abc import Iterable
from functools import lru_cache

_LIKENESS = 0.7  # of difflib; below it short names get suggestions that have nothing to do with them


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the word, in any case; None if no name is like it."""
    return _nearest(word.lower(), tuple(known))


@lru_cache(maxsize=128)  # a worker may meet the same unknown handler in thousands of messages
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # 10 ms to import, and only errors need it

    names = {name.lower(): name for name in known}
    found = get_close_matches(word, names, n=1, cutoff=_LIKENESS)
    return names[found[0]] if found else None
