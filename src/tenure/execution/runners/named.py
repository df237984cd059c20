"""Named: the tickets that somebody has named, remembered for a while."""

import time
from collections.abc import Sequence

_REMEMBERED = 10.0  # how long a name is looked for: an attempt may be on its way between inbox and child


class Named:
    """Written by one thread, read and tidied by another; tickets are told apart by identity."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[object, float]] = {}

    def add(self, tickets: Sequence[object]) -> None:
        """What is known already keeps its time."""
        now = time.monotonic()
        for ticket in tickets:
            self._since.setdefault(id(ticket), (ticket, now))

    def __contains__(self, ticket: object) -> bool:
        return id(ticket) in self._since

    def age(self, ticket: object, now: float) -> float | None:
        """Seconds since it was named; None when it was not."""
        found = self._since.get(id(ticket))
        return None if found is None else now - found[1]

    def forget_old(self, now: float) -> None:
        for key in [key for key, (_, since) in list(self._since.items()) if now - since > _REMEMBERED]:
            del self._since[key]
