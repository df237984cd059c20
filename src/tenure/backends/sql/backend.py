"""SqlBackend: the eight verbs on split tables.

A lease is taken by moving rows from ready to lease in one transaction, and lost when its row is reaped.
`abandon` moves the body to the dead letters in the same transaction. Order is strict: priority, then enqueue.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Park, Reaped
from tenure.backends.sql import migrations, statements
from tenure.backends.sql.ages import SqlAges
from tenure.backends.sql.chronicle import SqlChronicle
from tenure.backends.sql.dialect import Dialect, Grant, Pair
from tenure.backends.sql.guarding import SqlGuarding
from tenure.backends.sql.joining import joined
from tenure.backends.sql.ledger import SqlLedger
from tenure.backends.sql.listing import SqlListing
from tenure.backends.sql.records import SqlRecords
from tenure.backends.sql.rescheduling import SqlRescheduling
from tenure.backends.sql.statistics import SqlStatistics
from tenure.backends.sql.steering import SqlSteering
from tenure.backends.upkeep import Fact
from tenure.errors import BackendUnavailable

V = TypeVar("V", Ack, Nack, Abandon, Park)
_REAP_BATCH = 500


class SqlBackend:
    """The hot verbs, and by delegation what `records`, `steering` and `migrations` can do on the same database."""

    key_path: Path  # set where the database is a file of ours
    sqlite: tuple[int, ...]  # set where it is one of SQLite
    facts: Callable[[], list[Fact]]  # set where there is a server to ask

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._owner = secrets.token_hex(8)
        self._was_busy = False
        self._in_doubt: set[Pair] = set()
        self.steps_taken: list[str] = []
        records = SqlRecords(dialect)
        self.counts, self.find, self.heads = records.counts, records.find, records.heads
        self.dead, self.replay, self.discard = records.dead, records.replay, records.discard
        self.bury = records.bury
        self.greet, self.part, self.workers = records.greet, records.part, records.workers
        self.trim = records.trim
        listing = SqlListing(dialect, records)
        self.queues_with, self.page = records.queues_with, listing.page
        self.oldest = SqlAges(dialect).oldest
        statistics = SqlStatistics(dialect)
        self.note_tallies, self.tallies = statistics.note_tallies, statistics.tallies
        self.fold_tallies, self.drop_tallies = statistics.fold_tallies, statistics.drop_tallies
        self._guarding = guarding = SqlGuarding(dialect)
        self.change, self.look, self.sweep = guarding.change, guarding.look, guarding.sweep
        self.rouse, self.holders = guarding.rouse, guarding.holders
        self.ledger = SqlLedger(dialect)
        self.chronicle = SqlChronicle(dialect)
        steering = SqlSteering(dialect, self._owner)
        self.cancel, self.asked_to_stop = steering.cancel, steering.asked_to_stop
        self.note_progress = steering.note_progress
        self.reschedule = SqlRescheduling(dialect).reschedule

    def put(self, messages: Sequence[Message]) -> list[str]:
        return self._dialect.put(messages) if messages else []

    def put_in(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        raw = joined(connection, self._dialect.name, self._dialect.place)
        return self._dialect.put_in(raw, messages, wake) if messages else []

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        # Where there was work there is more: looking first would cost a busy worker a turn at the database.
        grant = Grant(self._owner, seconds)
        may_have_work = self._was_busy or not self._dialect.until_work(queues)
        leases = self._dialect.claim(queues, limit, grant) if may_have_work else []
        if not leases and wait and self._wait_for_work(queues, wait):
            leases = self._dialect.claim(queues, limit, grant)
        self._was_busy = bool(leases)
        return leases

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle(verdicts, self._dialect.archive)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle(verdicts, self._dialect.give_back)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle(verdicts, self._dialect.bury)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle(verdicts, self._guarding.park)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        mine = [lease for lease in leases if lease.owner == self._owner]
        held = self._dialect.renew(mine, Grant(self._owner, seconds)) if mine else set()
        return [lease for lease in leases if lease.owner != self._owner or (lease.id, lease.fence) not in held]

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        reaped: list[Reaped] = []
        for queue in queues:
            while expired := self._dialect.expire(queue, _REAP_BATCH):
                reaped += [Reaped(row.id, queue, row.suspect) for row in expired]
        return reaped

    def close(self) -> None:
        self._dialect.close()

    def schema_version(self) -> tuple[int, int]:
        return migrations.stored(self._dialect), migrations.newest(self._dialect.name)

    def missing_indexes(self) -> list[str]:
        return migrations.missing_indexes(self._dialect)

    def migrate(self) -> list[str]:
        taken = migrations.migrate(self._dialect)
        self.steps_taken += taken
        return taken

    def _wait_for_work(self, queues: Sequence[str], wait: float) -> bool:
        """Until there is something to lease, a delayed job falls due, or the wait is over."""
        give_up = time.monotonic() + wait
        watch = self._dialect.watch()
        try:
            while soonest := self._dialect.until_work(queues):
                left = give_up - time.monotonic()
                if left <= 0:
                    return False
                watch.wait(min(left, soonest))
            return True
        finally:
            watch.close()

    def _settle(self, verdicts: Sequence[V], apply: Callable[[str, Sequence[V]], set[Pair]]) -> list[Lease]:
        """Apply the first verdict on each lease that is still held, and name the other leases."""
        mine = {
            (verdict.lease.id, verdict.lease.fence): verdict
            for verdict in reversed(verdicts)
            if verdict.lease.owner == self._owner
        }
        firsts = list(reversed(mine.values()))
        try:
            held = apply(self._owner, firsts) if mine else set()
        except BackendUnavailable:  # it may have happened, and a connection that was cut is replaced by now
            self._in_doubt.update(mine)
            held = apply(self._owner, firsts)
        if self._in_doubt:
            held |= self._settled_before(mine.keys() - held)
        return _lost(verdicts, mine, held)

    def _settled_before(self, missing: set[Pair]) -> set[Pair]:
        """Of the leases that are gone, those that an earlier settlement without an answer took after all."""
        doubtful = missing & self._in_doubt
        if not doubtful:
            return doubtful
        page = {"ids": [id for id, _ in doubtful], "owner": self._owner}
        found = {(id, fence) for id, fence in self._dialect.read(statements.SETTLED, page)}
        self._in_doubt -= doubtful
        return doubtful & found


def _lost(verdicts: Sequence[V], mine: dict[Pair, V], held: set[Pair]) -> list[Lease]:
    if len(held) == len(verdicts):
        return []
    lost = []
    for verdict in verdicts:
        pair = (verdict.lease.id, verdict.lease.fence)
        if pair not in held or mine[pair] is not verdict:
            lost.append(verdict.lease)
    return lost
