"""The janitor: deletes what is older than its retention, in small chunks, so that no other call waits for it.

Every five minutes one worker of the fleet cleans: the one that enters the tick into the ledger first.
"""

import logging
import random
import threading
import time
from collections import Counter

from tenure.backends.contract import Parts, trim_ended
from tenure.backends.ledger import Ledger, Note, TickRecord
from tenure.backends.parts import Payloads
from tenure.backends.records import FAILED_RUN
from tenure.clock import MICROSECOND, Clock, to_datetime
from tenure.errors import BackendError
from tenure.events import END_STATES
from tenure.guards.store import Store
from tenure.metrics.statistics import SLOT_MICROSECONDS
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

CLEANING = "tenure:clean"  # the name under which the ledger holds the cleaning
CLEANING_INTERVAL = 300 * MICROSECOND
TICK_RETENTION = 30 * 86_400.0  # seconds that ended ticks are kept
TICKS_KEPT = 1000  # of each schedule
STATISTICS = "statistics"
PAYLOADS = "payloads"
AUDIT = "audit"
_INTERVAL_WITHOUT_LEDGER = 60.0
_MAX_REST_SECONDS = 0.1
_CHUNK = 500
# Adding up the sizes of ten million payloads takes a server about a second.
_PAYLOAD_COUNT_INTERVAL = 3600 * MICROSECOND
_SPREAD_SECONDS = 2.0


class Janitor:
    """A role of every worker; several janitors at once do no harm."""

    def __init__(
        self,
        parts: Parts,
        clock: Clock,
        retention: dict[str, float],
        payload_bytes: int,
        guards: Store | None = None,
        outage: OutageLog | None = None,
    ) -> None:
        """`retention` is seconds by state, for statistics, payloads and the audit log; 0 is for ever, but for payloads.

        Payloads of ended jobs may take `payload_bytes` together. Without a ledger every janitor cleans.
        """
        self._parts = parts
        self._clock = clock
        self._payload_retention = round(retention.get(PAYLOADS, 0) * MICROSECOND)
        self._payload_bytes = payload_bytes
        self._stats_retention = round(retention.get(STATISTICS, 0) * MICROSECOND)
        self._audit_retention = round(retention.get(AUDIT, 0) * MICROSECOND)
        self._retention = {state: retention[state] for state in END_STATES if retention.get(state)}
        self._guards = guards
        self._ledger = parts.ledger
        self._outage = outage or OutageLog()
        self._stopping = threading.Event()

    def run(self) -> None:
        wait = 1.0
        while not self._stopping.wait(wait):
            try:
                wait = self.turn()
            except BackendError as error:
                self._outage.failed(logger, "deleting old records", error)
                wait = _INTERVAL_WITHOUT_LEDGER

    def stop(self) -> None:
        self._stopping.set()

    def turn(self) -> float:
        """Clean, unless another janitor does; returns the seconds until the next turn."""
        if self._ledger is None:
            self.clean()
            return _INTERVAL_WITHOUT_LEDGER
        now = self._ledger.time()
        tick = now - now % CLEANING_INTERVAL
        id = f"{CLEANING}@{to_datetime(tick):%Y-%m-%dT%H:%MZ}"
        if self._ledger.enter([TickRecord(id=id, schedule=CLEANING, tick=tick, due=tick, state="running")]):
            self._end_vanished(self._ledger, tick)
            count = self.clean(limit_bytes=tick % _PAYLOAD_COUNT_INTERVAL == 0).total()
            self._ledger.note([Note(id, "succeeded", f"{count} deleted")])
        return (tick + CLEANING_INTERVAL - now) / MICROSECOND + random.uniform(0, _SPREAD_SECONDS)  # noqa: S311 - only spreads the fleet

    def clean(self, *, limit_bytes: bool = True) -> Counter[str]:
        """Delete everything older than its retention, and with `limit_bytes` the payloads that take too much.

        Returns how many of each kind.
        """
        total: Counter[str] = Counter()
        while not self._stopping.is_set():
            started = time.monotonic()
            deleted = self.sweep()
            total.update(deleted)
            if max(deleted.values(), default=0) < _CHUNK:
                break
            _rest(started)
        if self._parts.payloads is not None:
            total[PAYLOADS] = self._erase_payloads(self._parts.payloads, limit_bytes)
        return total

    def sweep(self) -> Counter[str]:
        """Delete one chunk of each kind; returns how many of each."""
        parts, now = self._parts, self._clock.now()
        deleted: Counter[str] = Counter()
        for state, seconds in self._retention.items():
            until = now - round(seconds * MICROSECOND)
            deleted[state] = trim_ended(parts, state, until, _CHUNK)
            if parts.archive is not None and state == "dead":  # jobs that were to run again and never did
                deleted[state] += sum(parts.archive.trim(each, until, _CHUNK) for each in ("ready", "delayed"))
            if parts.inline_runs is not None:
                deleted["inline runs"] += parts.inline_runs.trim(
                    FAILED_RUN if state == "dead" else state, until, _CHUNK
                )
        if self._guards is not None:
            deleted["guards"] = self._guards.sweep(_CHUNK)
        if self._ledger is not None:
            deleted["ticks"] = self._ledger.forget(now - round(TICK_RETENTION * MICROSECOND), TICKS_KEPT, _CHUNK)
        if parts.stats is not None:
            deleted[STATISTICS] = parts.stats.fold(now - 2 * SLOT_MICROSECONDS, _CHUNK)
            if self._stats_retention:
                deleted[STATISTICS] += parts.stats.drop(now - self._stats_retention, _CHUNK)
        if parts.audit is not None and self._audit_retention:
            deleted[AUDIT] = parts.audit.trim(now - self._audit_retention, _CHUNK)
        if parts.workers is not None:
            deleted["dead workers"] = parts.workers.drop_dead(_CHUNK)
        return deleted

    def _erase_payloads(self, payloads: Payloads, limit_bytes: bool) -> int:
        """Erase the payloads that are too old, and the oldest of those that take too many bytes together."""
        excess = payloads.kept().bytes - self._payload_bytes if limit_bytes else 0
        before = self._clock.now() - self._payload_retention
        total = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            erased = payloads.erase(before, _CHUNK, max(0, excess))
            total += erased.jobs
            excess -= erased.bytes
            if erased.jobs < _CHUNK:
                break
            _rest(started)
        return total

    def _end_vanished(self, ledger: Ledger, tick: int) -> None:
        """A janitor that has not ended within five minutes has vanished, or is too slow to wait for."""
        late = [each for each in ledger.history(CLEANING, states=["running"]) if each.tick < tick]
        ledger.note([Note(each.id, "failed", "the worker that cleaned has vanished") for each in late])


def _rest(started: float) -> None:
    """Rest as long as the last chunk took, so that the work of others goes on and the janitor keeps up with it."""
    time.sleep(min(time.monotonic() - started, _MAX_REST_SECONDS))
