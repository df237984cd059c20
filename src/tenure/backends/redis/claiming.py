"""Claiming: grants leases, waits for work, and returns what expired."""

import itertools
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from tenure.backends.contract import Lease, Reaped
from tenure.backends.redis import notation
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.doubts import Doubts
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts
from tenure.clock import MICROSECOND
from tenure.errors import BackendUnavailable

_REAP_BATCH = 500
_LONG = 60.0


class Claiming:
    """Every claim has an owner token of its own, by which its leases are found when its answer was lost."""

    def __init__(self, line: Line, scripts: Scripts, names: Names, doubts: Doubts) -> None:
        self._line = line
        self._scripts = scripts
        self._names = names
        self._doubts = doubts
        self._owner = secrets.token_hex(8)
        self._claims = itertools.count(1)

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        give_up = time.monotonic() + wait
        microseconds = round(seconds * MICROSECOND)
        woken = broken = False
        while True:
            leases, until_due = self._claim(queues, limit, microseconds, woken)
            left = give_up - time.monotonic()
            if leases or left <= 0:
                return leases
            try:
                woken = self._line.wait(self._names.wakes(queues), min(left, until_due))
            except BackendUnavailable:
                if broken:
                    raise
                broken = True  # perhaps only an idle connection was cut: the next claim tells

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        reaped: list[Reaped] = []
        for queue in queues:
            key, full = self._names.queue(queue), True
            while full:
                found = patiently(partial(self._scripts.run, "reap", key, [_REAP_BATCH]))
                reaped += [
                    Reaped(id.decode(), queue, bool(crashed))
                    for id, crashed in zip(found[::2], found[1::2], strict=True)
                ]
                full = len(found) == 2 * _REAP_BATCH
        return reaped

    def _claim(self, queues: Sequence[str], limit: int, microseconds: int, woken: bool) -> tuple[list[Lease], float]:
        """Up to `limit` leases, and the time until the next delayed job is due."""
        leases = self._regain(microseconds)
        until_due = _LONG
        if leases:
            return leases, 0.0
        for queue in queues:
            wanted: list[Word] = [microseconds, limit - len(leases), int(not leases), int(woken)]
            try:
                owner, reply = self._claim_from(queue, wanted)
            except BackendUnavailable:
                if leases:  # with these in hand nothing may go wrong any more; the doubt is for the next call
                    break
                if regained := self._regain(microseconds):
                    return regained, 0.0
                owner, reply = self._claim_from(queue, wanted)
            if len(reply) == 2:
                if reply[1]:
                    until_due = min(until_due, (int(reply[1]) - int(reply[0])) / MICROSECOND)
                continue
            leases += _leases(reply, queue, owner)
            if reply[4] or len(leases) >= limit:
                break
        return leases, max(0.0, until_due)

    def _claim_from(self, queue: str, wanted: Sequence[Word]) -> tuple[str, Any]:
        owner = f"{self._owner}.{next(self._claims)}"
        try:
            return owner, self._scripts.run("claim", self._names.queue(queue), [owner, *wanted])
        except BackendUnavailable:
            self._doubts.claimed(queue, owner)
            raise

    def _regain(self, microseconds: int) -> list[Lease]:
        """What claims without an answer were granted."""
        claims = self._doubts.take_claims()
        leases: list[Lease] = []
        for position, (queue, owner) in enumerate(claims):
            try:
                leases += _leases(
                    self._scripts.run("regain", self._names.queue(queue), [owner, microseconds]), queue, owner
                )
            except BackendUnavailable:
                for claim in claims[position:]:
                    self._doubts.claimed(*claim)
                if not leases:
                    raise
                break
        return leases


def _leases(reply: Any, queue: str, owner: str) -> list[Lease]:
    _, popped, metas, records, _ = reply
    if not metas:
        metas = itertools.repeat(None)
    make = notation.lease
    return [
        make(id, place, meta, record, queue, owner)
        for id, place, meta, record in zip(popped[::2], popped[1::2], metas, records, strict=False)
    ]
