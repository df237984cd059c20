"""Suggestions: the known name that is most like a mistyped one, for error messages."""

from collections.abc import Iterable

_LIKENESS = 0.7  # of difflib; below it short names get suggestions that have nothing to do with them


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the word, in any case; None if no name is like it."""
    from difflib import get_close_matches  # 4 ms to import, and only errors need it

    names = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), names, n=1, cutoff=_LIKENESS)
    return names[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'reports'?` for the end of a message, or an empty text."""
    guess = nearest(word, known)
    return "" if guess is None else f"; did you mean {guess!r}?"
