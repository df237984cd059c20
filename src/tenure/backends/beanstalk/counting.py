"""What beanstalkd's own figures mean: the order of jobs, and what became of their former reservations.

A reservation that ended neither by a release nor by a bury vanished with its connection, or ran out. The server counts
since its start: what happened before a restart of the server is forgiven.
"""

import math
import re
from typing import NamedTuple

_LEVEL = 28
_FRESH = (1 << _LEVEL) - 1
_FIGURES = re.compile(
    rb'\ntube: "?([^"\n]*)"?\n.*?\nttr: (\d+)\n.*?'
    rb"\nreserves: (\d+)\ntimeouts: \d+\nreleases: (\d+)\nburies: (\d+)\nkicks: (\d+)\n",
    re.DOTALL,
)


class Figures(NamedTuple):
    """A job as the server sees it."""

    tube: bytes
    ttr: int
    reserves: int
    releases: int
    buries: int
    kicks: int

    @property
    def vanished(self) -> int:
        """How many reservations before the present one ended without a word of their holder."""
        return max(0, self.reserves - 1 - self.releases - self.buries)


_FIRST_TIME = b"\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n"


def figures(yaml: bytes, usual: Figures | None = None) -> Figures:
    """What the server tells; `usual` is what is expected of a job that is reserved for the first time."""
    if usual and yaml.endswith(_FIRST_TIME) and b"\nttr: %d\n" % usual.ttr in yaml:
        return usual
    found = _FIGURES.search(yaml)
    if found is None:
        raise ValueError(f"the server's figures of a job cannot be read: {yaml[:200]!r}")
    tube, *numbers = found.groups()
    return Figures(tube, *map(int, numbers))


def figure(yaml: bytes, name: bytes) -> int:
    """One number out of what the server tells about itself or a tube; 0 where it does not."""
    found = re.search(rb"^%s: (\d+)$" % re.escape(name), yaml, re.MULTILINE)
    return int(found[1]) if found else 0


def rank(priority: int, place: int) -> int:
    """Small comes first: by level, then what came back in the order of its first put, then what is fresh."""
    return (9 - priority) << _LEVEL | (place % _FRESH if place else _FRESH)


def whole(seconds: float) -> int:
    """Never early: the server counts whole seconds."""
    return max(0, math.ceil(seconds))
