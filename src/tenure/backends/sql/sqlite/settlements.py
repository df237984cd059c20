"""SqliteSettlements: ends jobs, returns them to their place, or moves them to the dead letters."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tenure.backends.messages import SUSPECTS_PREFIX, Abandon, Ack, Nack, Verdict, vanished_after
from tenure.backends.sql.dialect import Dialect, Pair, failures
from tenure.backends.sql.guards import apply, changes_of, lock_guards, settlement_changes
from tenure.backends.sql.sqlite.claims import DROP_LEASES, end_cancelled, held_leases, lease_keys
from tenure.backends.sql.sqlite.compound import compound
from tenure.backends.sql.sqlite.database import BEGIN, Database, json_text, rows_on, was_applied
from tenure.clock import MICROSECOND
from tenure.definition.failure import KEPT_FAILURES

Plan = list[tuple[str, dict[str, Any]]]  # statements with their parameters
V = TypeVar("V", Ack, Nack, Abandon)

_OUTCOME = """
INSERT INTO tenure_outcome
SELECT l.key, l.queue, {state}, l.attempts, l.crashes, l.fence, :now, {size}, l.owner, {seconds}, {reason}, {output},
       {run}
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = {key}
"""
_FREE_UNIQUE = "UPDATE tenure_job SET only_one = NULL WHERE key IN (SELECT value FROM json_each(:uniques))"
ACK = compound(
    "tenure_ack",
    _OUTCOME.format(
        key="e.value ->> 0",
        state="e.value ->> 1",
        seconds="e.value ->> 2",
        reason="e.value ->> 3",
        output="e.value ->> 4",
        run="nullif(e.value -> 5, 'null')",
        size="e.value ->> 6",
    ),
    DROP_LEASES,
    _FREE_UNIQUE,
)
# Nearly every batch: attempts without output or reason, on leases that are all held.
ACK_PLAIN = compound(
    "tenure_ack_plain",
    """
SELECT RAISE(ABORT, 'not all are held') WHERE :held IS NOT (
    SELECT group_concat(l.fence)
    FROM json_each(:keys) AS e JOIN tenure_lease AS l ON l.key = e.value WHERE l.owner = :owner AND NOT l.asked
)
""",
    _OUTCOME.format(
        key="CAST(e.key AS INTEGER)",
        state=":state",
        seconds="NULL",
        reason="NULL",
        output="NULL",
        run="e.value",
        size="e.value ->> 9",
    ),
    DROP_LEASES,
)
_ALL_HELD = """
SELECT RAISE(ABORT, 'not all are held') WHERE json_array_length(:batches) <> (
    SELECT count(*) FROM json_each(:batches) AS e JOIN tenure_batch AS b ON b.key = e.value WHERE b.owner = :owner
)
"""
_DROP_BATCHES = "DELETE FROM tenure_batch WHERE key IN (SELECT value FROM json_each(:ended))"
ACK_MEMBERS = compound(
    "tenure_ack_members",
    _ALL_HELD,
    """
INSERT INTO tenure_outcome
SELECT e.value ->> 0, e.value ->> 7, e.value ->> 1, 0, 0, 1, :now, e.value ->> 6, :owner, e.value ->> 2, e.value ->> 3,
       e.value ->> 4, nullif(e.value -> 5, 'null')
FROM json_each(:items) AS e
""",
    _DROP_BATCHES,
    _FREE_UNIQUE,
)
ACK_PLAIN_MEMBERS = compound(
    "tenure_ack_plain_members",
    _ALL_HELD,
    """
INSERT INTO tenure_outcome
SELECT CAST(e.key AS INTEGER), :queue, :state, 0, 0, 1, :now, e.value ->> 9, :owner, NULL, NULL, NULL, e.value
FROM json_each(:items) AS e
""",
    _DROP_BATCHES,
)
NACK = compound(
    "tenure_nack",
    """
INSERT INTO tenure_ready
SELECT l.queue, l.rank, l.key, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0
WHERE e.value ->> 1 <= :now AND e.value ->> 4 >= 0
""",
    f"""
INSERT INTO tenure_parked
SELECT l.key, '{SUSPECTS_PREFIX}' || l.queue, l.queue, l.rank, l.attempts + (e.value ->> 2),
       l.crashes + (e.value ->> 3), l.fence, e.value ->> 4
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0
WHERE e.value ->> 1 <= :now AND e.value ->> 4 < 0
""",
    """
INSERT INTO tenure_delayed
SELECT l.key, l.queue, l.rank, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, e.value ->> 4,
       e.value ->> 1
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 WHERE e.value ->> 1 > :now
""",
    DROP_LEASES,
)
ABANDON = compound(
    "tenure_abandon",
    """
INSERT INTO tenure_dead
SELECT l.key, j.id, l.queue, l.attempts + (e.value ->> 2), l.crashes + (e.value ->> 3), l.fence, :now, l.owner,
       e.value ->> 1
FROM json_each(:items) AS e JOIN tenure_lease AS l ON l.key = e.value ->> 0 JOIN tenure_job AS j ON j.key = l.key
""",
    DROP_LEASES,
    _FREE_UNIQUE,
)
SAVE_FAILURES = """
INSERT OR REPLACE INTO tenure_failure
SELECT e.value ->> 0, e.value ->> 1, e.value -> 2 FROM json_each(:items) AS e
"""
TRIM_FAILURES = """
DELETE FROM tenure_failure WHERE (id, fence) IN (
    SELECT f.id, f.fence FROM json_each(:items) AS e JOIN tenure_failure AS f ON f.id = e.value ->> 0
    WHERE e.value ->> 1 > :keep AND f.fence <= (
        SELECT fence FROM tenure_failure WHERE id = f.id ORDER BY fence DESC LIMIT 1 OFFSET :keep
    )
)
"""


class SqliteSettlements:
    """Each verb returns the leases that were held, by id and fence."""

    def __init__(self, dialect: Dialect, database: Database, now: Callable[[], int]) -> None:
        self._dialect = dialect
        self._database = database
        self._now = now

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        if _are_plain(verdicts):
            held = ",".join([str(v.lease.fence) for v in verdicts])
            batch = self._batch({v.lease.token: v.run for v in verdicts}, verdicts)
            batch |= {"owner": owner, "held": held, "state": verdicts[0].state}
            if self._database.run_alone(ACK_PLAIN.call, batch):
                return {(v.lease.id, v.lease.fence) for v in verdicts}

        def plan(held: Sequence[Ack]) -> Plan:
            return [(ACK.call, self._batch([_end(v) for v in held], held))]

        return self._settle(owner, verdicts, plan)

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        """If one of the batches is gone, nothing is done, and none counts as held."""
        queue = verdicts[0].lease.queue
        if _are_plain(verdicts) and all(v.lease.queue == queue for v in verdicts):
            call = ACK_PLAIN_MEMBERS.call
            batch = self._batch({v.lease.token: v.run for v in verdicts}, verdicts)
            batch |= {"queue": queue, "state": verdicts[0].state}
        else:
            call = ACK_MEMBERS.call
            batch = self._batch([(*_end(v), v.lease.queue) for v in verdicts], verdicts)
        batch |= {"owner": owner, "batches": json_text(batches), "ended": json_text(ended)}
        changes = settlement_changes(verdicts)
        if not changes:
            return set(batches) if self._database.run_alone(call, batch) else set()
        with self._database.transaction() as tx:
            if not was_applied(tx, call, batch):
                return set()
            apply(self._dialect, rows_on(tx), changes, lock_guards(self._dialect, rows_on(tx), changes))
        return set(batches)

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        def plan(held: Sequence[Nack]) -> Plan:
            now = self._now()
            items = [
                (
                    v.lease.token,
                    now + round(v.delay * MICROSECOND),
                    v.charge == "attempt",
                    v.charge == "crash",
                    vanished_after(v),
                )
                for v in held
            ]
            return [*_save_failures(held), (NACK.call, self._batch(items, held))]

        return self._settle(owner, verdicts, plan)

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        def plan(held: Sequence[Abandon]) -> Plan:
            items = [(v.lease.token, v.reason, v.charge == "attempt", v.charge == "crash") for v in held]
            return [*_save_failures(held), (ABANDON.call, self._batch(items, held))]

        return self._settle(owner, verdicts, plan)

    def _settle(self, owner: str, verdicts: Sequence[V], plan: Callable[[Sequence[V]], Plan]) -> set[Pair]:
        """Plan before the write lock is taken, because nearly always every lease is held; otherwise plan again."""
        steps = plan(verdicts)
        leases = [verdict.lease for verdict in verdicts]
        wanted = lease_keys(owner, leases)
        with self._database.write_turn() as tx:
            held, cancelled = held_leases(tx, wanted, leases)
            if len(held) != len(leases):
                mine = [verdict for verdict in verdicts if (verdict.lease.id, verdict.lease.fence) in held]
                steps = plan(mine) if mine else []
            changes = changes_of(verdicts, held)
            if len(steps) > 1 or changes or cancelled != "[]":
                tx.execute(BEGIN)
            for statement, parameters in steps:
                tx.execute(statement, parameters)
            if changes:
                apply(self._dialect, rows_on(tx), changes, lock_guards(self._dialect, rows_on(tx), changes))
            end_cancelled(tx, cancelled, self._now())
        return held

    def _batch(self, items: Any, held: Sequence[Verdict]) -> dict[str, Any]:
        keys = [verdict.lease.token for verdict in held]
        uniques = [verdict.lease.token for verdict in held if verdict.lease.is_unique]
        return {"items": json_text(items), "keys": json_text(keys), "uniques": json_text(uniques), "now": self._now()}


def _end(verdict: Ack) -> tuple[Any, ...]:
    """An item of ACK."""
    lease = verdict.lease
    size = len(lease.body)
    return (lease.token, verdict.state, verdict.seconds, verdict.reason, verdict.output, verdict.run, size)


def _are_plain(verdicts: Sequence[Ack]) -> bool:
    """Whether the outcomes need only the `run` of each verdict, and all have one state."""
    state = verdicts[0].state
    return all(
        v.run is not None
        and v.run.seconds == v.seconds
        and v.output is None
        and v.reason is None
        and v.change is None
        and v.state == state
        and not v.lease.is_unique
        for v in verdicts
    )


def _save_failures(verdicts: Sequence[Nack | Abandon]) -> Plan:
    """Steps that save the failures of these verdicts, and keep the newest of each job."""
    found = failures(verdicts)
    if not found:
        return []
    trimmed = {"items": json_text([item[:2] for item in found]), "keep": KEPT_FAILURES}
    return [(SAVE_FAILURES, {"items": json_text(found)}), (TRIM_FAILURES, trimmed)]
