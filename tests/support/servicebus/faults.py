"""Faults: what the emulator does wrong on demand; each is counted down until it is used up."""

from collections import Counter


class Faults:
    """Kinds: `busy` refuses for throttling, `cut` drops the connection, `silence` never answers.

    Moments: `send`, `settle` (on the link), `manage` (renewing, and settling by token), `attach`.
    """

    def __init__(self) -> None:
        self._planned: Counter[tuple[str, str]] = Counter()
        self.met: Counter[str] = Counter()

    def plan(self, moment: str, kind: str, times: int = 1) -> None:
        self._planned[moment, kind] += times

    def clear(self) -> None:
        """From now on nothing goes wrong."""
        self._planned.clear()

    def strike(self, moment: str) -> str | None:
        """What goes wrong this time, if anything."""
        self.met[moment] += 1
        for planned, left in self._planned.items():
            if planned[0] == moment and left:
                self._planned[planned] -= 1
                return planned[1]
        return None
