"""MysqlSettlements: ends jobs, returns them to their place, or moves them to the dead letters; two packets each."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.sql.dialect import ClaimCursor, Dialect, Pair, failures
from tenure.backends.sql.guards import apply, changes_of, lock_guards, settlement_changes
from tenure.backends.sql.mysql.claims import (
    DROP_LEASES,
    HeldRow,
    end_cancelled,
    held_members,
    held_rows,
    ready_or_apart,
)
from tenure.backends.sql.mysql.connection import BEGIN, COMMIT, MysqlExecutor, MysqlSession, numbers
from tenure.clock import MICROSECOND
from tenure.definition.failure import KEPT_FAILURES

V = TypeVar("V", Ack, Nack, Abandon)
OUTCOME = """
INSERT INTO tenure_outcome (`key`, queue, state, attempts, crashes, fence, finished, size, owner, seconds, reason,
                            output, run) VALUES {rows}
"""
OUTCOME_ROW = "(%s, %s, %s, %s, %s, %s, {now}, %s, %s, %s, %s, %s, %s)"
DELAYED = "INSERT INTO tenure_delayed (queue, `rank`, `key`, attempts, crashes, fence, vanished, due) VALUES {rows}"
DELAYED_ROW = "(%s, %s, %s, %s, %s, %s, %s, {now} + {delay})"
DEAD = """
INSERT INTO tenure_dead (`key`, id, queue, attempts, crashes, fence, died, owner, reason) VALUES {rows}
"""
DEAD_ROW = "(%s, %s, %s, %s, %s, %s, {now}, %s, %s)"
SAVE_FAILURES = "REPLACE INTO tenure_failure (id, fence, record) VALUES {rows}"
TRIM_FAILURES = """
DELETE FROM tenure_failure WHERE id = %s AND fence <= (
    SELECT fence FROM (
        SELECT fence FROM tenure_failure WHERE id = %s ORDER BY fence DESC LIMIT 1 OFFSET {keep}
    ) AS oldest
)
"""
DROP_BATCHES = "DELETE FROM tenure_batch WHERE `key` IN ({keys}) AND owner = %s"
FREE_UNIQUE = "UPDATE tenure_job SET only_one = NULL WHERE `key` IN ({keys})"


class MysqlSettlements:
    """Each verb returns the leases that were held, by id and fence."""

    def __init__(self, dialect: Dialect, executor: MysqlExecutor, cursor: ClaimCursor) -> None:
        self._dialect = dialect
        self._executor = executor
        self._cursor = cursor

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        def plan(session: MysqlSession, held: list[tuple[HeldRow, Ack]]) -> list[str]:
            return [_outcomes(session, owner, held), *_end(session, held)]

        return self._settle(owner, verdicts, plan)

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        def plan(session: MysqlSession, held: list[tuple[HeldRow, Ack]]) -> list[str]:
            drop = [session.fill(DROP_BATCHES, owner, keys=numbers(ended))] if ended else []
            return [_outcomes(session, owner, held), *drop, *_free_uniques(session, held)]

        def lock(session: MysqlSession) -> list[HeldRow]:
            return held_members(session, owner, verdicts, batches)

        held = self._settle(owner, verdicts, plan, lock)
        return {v.lease.batch.key for v in verdicts if (v.lease.id, v.lease.fence) in held}

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        def plan(session: MysqlSession, held: list[tuple[HeldRow, Nack]]) -> list[str]:
            steps = [session.fill(DROP_LEASES, keys=numbers(row.key for row, _ in held))]
            steps += ready_or_apart(session, [row.ready_columns(v) for row, v in held if v.delay <= 0])
            for row, v in held:
                if v.delay > 0:
                    shape = DELAYED_ROW.replace("{delay}", str(round(v.delay * MICROSECOND)))
                    steps.append(session.rows(DELAYED, shape, [row.ready_columns(v)]))
            return [*steps, *_save_failures(session, [v for _, v in held])]

        self._cursor.drop(*{verdict.lease.queue for verdict in verdicts})
        return self._settle(owner, verdicts, plan)

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        def plan(session: MysqlSession, held: list[tuple[HeldRow, Abandon]]) -> list[str]:
            rows = [(row.key, v.lease.id, row.queue, *row.charged(v), row.fence, owner, v.reason) for row, v in held]
            failed = _save_failures(session, [v for _, v in held])
            return [session.rows(DEAD, DEAD_ROW, rows), *failed, *_end(session, held)]

        return self._settle(owner, verdicts, plan)

    def _settle(
        self,
        owner: str,
        verdicts: Sequence[V],
        plan: Callable[[MysqlSession, list[tuple[HeldRow, V]]], list[str]],
        lock: Callable[[MysqlSession], list[HeldRow]] | None = None,
    ) -> set[Pair]:
        """Run the plan for the leases that are held; `lock` finds them, if they are not rows of tenure_lease."""

        def settle(session: MysqlSession) -> set[Pair]:
            wanted = settlement_changes(verdicts)
            if wanted:
                session.send(BEGIN)
            guards = lock_guards(self._dialect, session.neutral, wanted) if wanted else {}
            by_pair = {(verdict.lease.token, verdict.lease.fence): verdict for verdict in verdicts}
            found = lock(session) if lock else held_rows(session, owner, [verdict.lease for verdict in verdicts])
            held = [(row, by_pair[row.key, row.fence]) for row in found if (row.key, row.fence) in by_pair]
            pairs = {(verdict.lease.id, verdict.lease.fence) for _, verdict in held}
            changes = changes_of(verdicts, pairs)
            if held:
                more = guards or any(row.asked for row, _ in held)
                session.send(*plan(session, held), *([] if more else [COMMIT]))
            if guards:
                apply(self._dialect, session.neutral, changes, guards)
            end_cancelled(self._executor, session, [row for row, _ in held])
            return pairs

        return self._executor.transaction(settle, again=False)


def _outcomes(session: MysqlSession, owner: str, held: Sequence[tuple[HeldRow, Ack]]) -> str:
    rows = [
        (*row.outcome_columns(v), len(v.lease.body), owner, v.seconds, v.reason, v.output, _run(v)) for row, v in held
    ]
    return session.rows(OUTCOME, OUTCOME_ROW, rows)


def _end(session: MysqlSession, held: Sequence[tuple[HeldRow, Ack | Abandon]]) -> list[str]:
    """Statements that delete the leases of ended jobs, and free their unique texts."""
    drop = session.fill(DROP_LEASES, keys=numbers(row.key for row, _ in held))
    return [drop, *_free_uniques(session, held)]


def _free_uniques(session: MysqlSession, held: Sequence[tuple[HeldRow, Ack | Abandon]]) -> list[str]:
    uniques = [row.key for row, v in held if v.lease.is_unique]
    return [session.fill(FREE_UNIQUE, keys=numbers(uniques))] if uniques else []


def _save_failures(session: MysqlSession, verdicts: Sequence[Nack | Abandon]) -> list[str]:
    """Statements that save the failures of these verdicts, and keep the newest of each job."""
    found = [(id, fence, msgspec.json.encode(failure).decode()) for id, fence, failure in failures(verdicts)]
    if not found:
        return []
    full = [id for id, fence, _ in found if fence > KEPT_FAILURES]
    trims = [session.fill(TRIM_FAILURES, id, id, keep=KEPT_FAILURES) for id in full]
    return [session.rows(SAVE_FAILURES, "(%s, %s, %s)", found), *trims]


def _run(verdict: Ack) -> str | None:
    return msgspec.json.encode(verdict.run).decode() if verdict.run else None
