"""Canary: a few jobs go first, and the others only when all of those succeeded."""

import time
from collections.abc import Sequence

from msgspec import Struct

from tenure.backends.asking import Inspectable, JobRecord
from tenure.cli.live import LiveLine
from tenure.cli.records import error_of

_ENDED = ("done", "dead", "cancelled", "expired")
_SOONEST, _LATEST = 0.05, 1.0  # seconds between looks: quick jobs are not waited for, slow ones not pestered


class Fate(Struct, frozen=True):
    """What became of one job that went first."""

    id: str
    state: str
    reason: str | None = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.state == "done"

    def __str__(self) -> str:
        why = ": ".join(filter(None, (self.reason, self.error)))
        return f"{self.id} is {self.state}{f' ({why})' if why else ''}"


def watch(backend: Inspectable, ids: Sequence[str], patience: float, line: LiveLine) -> list[Fate]:
    """What became of each, once all have ended or the time is up."""
    give_up = time.monotonic() + patience
    pause = _SOONEST
    fates: dict[str, Fate] = {}
    while True:
        for id in ids:
            if id not in fates or fates[id].state not in _ENDED:
                fates[id] = _fate(id, backend.find(id))
        running = sum(fate.state not in (*_ENDED, "unknown") for fate in fates.values())
        left = give_up - time.monotonic()
        if not running or left <= 0:
            return list(fates.values())
        line.show(f"waiting for {running} of {len(ids)} that went first …")
        time.sleep(min(left, pause))
        pause = min(_LATEST, pause * 1.5)


def _fate(id: str, record: JobRecord | None) -> Fate:
    if record is None:
        return Fate(id, "unknown", "it was trimmed, or deleted")
    error = error_of(record.failures) if record.state != "done" else None
    return Fate(id, record.state, record.reason, error)
