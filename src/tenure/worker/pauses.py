"""Pauses that double, with jitter, for whoever must ask again later."""

import random


class Pauses:
    """From `first` seconds up to `most`; each is spread by a fifth, so that many callers do not march in step."""

    def __init__(self, first: float = 0.05, most: float = 5.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    def longer(self) -> float:
        pause = self._next
        self._next = min(self._most, pause * 2)
        return pause * (0.8 + 0.4 * random.random())  # noqa: S311 - jitter

    def reset(self) -> None:
        self._next = self._first
