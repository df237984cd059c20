"""PostgresSettlements: ends jobs, returns them to their place, or moves them to the dead letters, by one statement."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.backends.messages import ON_REQUEST, Abandon, Ack, Nack, vanished_after
from tenure.backends.sql.dialect import ClaimCursor, Dialect, Pair, Rows
from tenure.backends.sql.guards import apply, changes_of, lock_guards, settlement_changes
from tenure.backends.sql.postgresql.claims import END_CANCELLED, PARK_SUSPECTS
from tenure.backends.sql.postgresql.connection import NOW, PostgresExecutor, number_array, text_array
from tenure.clock import MICROSECOND
from tenure.definition.failure import KEPT_FAILURES

T = TypeVar("T")
_HELD = """\
held AS (
    DELETE FROM tenure_lease AS l USING item AS i
    WHERE l.key = ANY(%(keys)s::bigint[]) AND l.key = i.item AND l.fence = i.turn AND l.owner = %(owner)s
    RETURNING l.key, l.queue, l.rank, l.attempts, l.crashes, l.fence, l.asked, i.*
)"""
_FAILED = """\
failed AS (
    INSERT INTO tenure_failure (id, fence, record) SELECT id, fence, record FROM held WHERE record IS NOT NULL
    ON CONFLICT (id, fence) DO UPDATE SET record = excluded.record
)"""
_FREED = """\
freed AS (
    UPDATE tenure_job SET only_one = NULL WHERE key = ANY(%(uniques)s::bigint[]) AND key IN (SELECT key FROM held)
)"""
# An array may be shorter than `keys`, and then NULL follows: a batch without results has no array of them.
_ENDED = """\
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(states)s::text[], %(seconds)s::float8[], %(reasons)s::text[],
        %(outputs)s::text[], %(runs)s::text[], %(sizes)s::int[], %(batches)s::bigint[]
    ) AS i(item, turn, state, seconds, reason, output, run, size, batch)
)"""
_OUTCOME = f"""\
INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size, owner, seconds, reason, output,
                            run)
SELECT key, queue, coalesce(state, 'done'), attempts, crashes, fence, {NOW}, size, %(owner)s, seconds, reason, output,
       run FROM held
"""
ACK = f"{_ENDED}, {_HELD} {_OUTCOME} RETURNING key, fence"
ACK_UNIQUE = f"{_ENDED}, {_HELD}, {_FREED} {_OUTCOME} RETURNING key, fence"
# A batch is locked, so that no one expands it meanwhile, and deleted with its last member.
_HELD_MEMBERS = """\
batch AS MATERIALIZED (
    SELECT key, queue FROM tenure_batch WHERE key = ANY(%(touched)s::bigint[]) AND owner = %(owner)s
    ORDER BY key FOR UPDATE
), gone AS (
    DELETE FROM tenure_batch WHERE key = ANY(%(ended)s::bigint[]) AND key IN (SELECT key FROM batch)
), held AS (
    SELECT i.item AS key, b.queue, i.state, 0 AS attempts, 0 AS crashes, 1 AS fence, i.size, i.seconds, i.reason,
           i.output, i.run
    FROM item AS i JOIN batch AS b ON b.key = coalesce(i.batch, %(batch)s::bigint)
)"""
_MEMBERS_ENDED = f"outcome AS ({_OUTCOME}) SELECT key FROM batch"
ACK_MEMBERS = f"{_ENDED}, {_HELD_MEMBERS}, {_MEMBERS_ENDED}"
ACK_UNIQUE_MEMBERS = f"{_ENDED}, {_HELD_MEMBERS}, {_FREED}, {_MEMBERS_ENDED}"
NACK = f"""
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(ids)s::text[], %(records)s::text[], %(delays)s::bigint[],
        %(attempts)s::int[], %(crashes)s::int[], %(vanished)s::smallint[]
    ) AS i(item, turn, id, record, delay, attempt, crash, vanished)
), {_HELD}, back AS MATERIALIZED (
    SELECT key, queue, rank, attempts + attempt AS attempts, crashes + crash AS crashes, fence, vanished, asked, delay
    FROM held
), ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
    SELECT queue, rank, key, attempts, crashes, fence, vanished FROM back
    WHERE asked = 0 AND delay <= 0 AND vanished >= 0
), apart AS (
    {PARK_SUSPECTS} FROM back WHERE asked = 0 AND delay <= 0 AND vanished < 0
), later AS (
    INSERT INTO tenure_delayed (key, queue, rank, attempts, crashes, fence, vanished, due)
    SELECT key, queue, rank, attempts, crashes, fence, vanished, {NOW} + delay FROM back WHERE asked = 0 AND delay > 0
), {END_CANCELLED}, {_FAILED}
SELECT key, fence FROM held
"""
ABANDON = f"""
WITH item AS MATERIALIZED (
    SELECT * FROM unnest(
        %(keys)s::bigint[], %(fences)s::int[], %(ids)s::text[], %(records)s::text[], %(reasons)s::text[],
        %(attempts)s::int[], %(crashes)s::int[]
    ) AS i(item, turn, id, record, reason, attempt, crash)
), {_HELD}, {_FREED}, {_FAILED}
INSERT INTO tenure_dead (key, id, queue, attempts, crashes, fence, died, owner, reason)
SELECT key, id, queue, attempts + attempt, crashes + crash, fence, {NOW}, %(owner)s, reason FROM held
RETURNING key, fence
"""
TRIM_FAILURES = """
DELETE FROM tenure_failure AS f WHERE f.id = ANY(%(ids)s::text[]) AND f.fence <= (
    SELECT fence FROM tenure_failure WHERE id = f.id ORDER BY fence DESC LIMIT 1 OFFSET %(keep)s
)
"""


class PostgresSettlements:
    """Each verb returns the leases that were held, by id and fence."""

    def __init__(self, dialect: Dialect, executor: PostgresExecutor, cursor: ClaimCursor) -> None:
        self._dialect = dialect
        self._executor = executor
        self._cursor = cursor

    def ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        verdicts = sorted(verdicts, key=_key)
        statement = ACK_UNIQUE if any(v.lease.is_unique for v in verdicts) else ACK
        return self._settle(statement, verdicts, owner=owner, batches="{}", **_ends(verdicts))

    def ack_members(self, owner: str, verdicts: Sequence[Ack], batches: list[int], ended: list[int]) -> set[int]:
        statement = ACK_UNIQUE_MEMBERS if any(v.lease.is_unique for v in verdicts) else ACK_MEMBERS
        values = {
            "keys": number_array([v.lease.token for v in verdicts]),
            "fences": "{}",
            "batches": _column([v.lease.batch.key for v in verdicts], batches[0], number_array),
            "batch": batches[0],
            "touched": number_array(batches),
            "ended": number_array(ended),
            "owner": owner,
            "now": self._executor.test_time(),
            **_ends(verdicts),
        }

        def held_leases(held: set[int]) -> set[Pair]:
            return {(v.lease.id, v.lease.fence) for v in verdicts if v.lease.batch.key in held}

        return self._run(verdicts, lambda rows: {key for (key,) in rows(statement, values)}, held_leases)

    def nack(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        verdicts = sorted(verdicts, key=_key)
        self._cursor.drop(*{verdict.lease.queue for verdict in verdicts})
        held = self._settle(
            NACK,
            verdicts,
            owner=owner,
            delays=number_array([round(v.delay * MICROSECOND) for v in verdicts]),
            vanished=number_array([vanished_after(v) for v in verdicts]),
            reason=ON_REQUEST,
            **_charges(verdicts),
        )
        self._trim_failures(verdicts)
        return held

    def abandon(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        verdicts = sorted(verdicts, key=_key)
        reasons = text_array([v.reason for v in verdicts])
        uniques = _uniques(verdicts)
        held = self._settle(ABANDON, verdicts, owner=owner, reasons=reasons, uniques=uniques, **_charges(verdicts))
        self._trim_failures(verdicts)
        return held

    def _settle(self, statement: str, verdicts: Sequence[Any], **columns: Any) -> set[Pair]:
        keys = {
            "keys": number_array([v.lease.token for v in verdicts]),
            "fences": number_array([v.lease.fence for v in verdicts]),
        }
        values = {**keys, **columns, "now": self._executor.test_time()}
        ids = {(v.lease.token, v.lease.fence): v.lease.id for v in verdicts}

        def settle(rows: Rows) -> set[Pair]:
            return {(ids[key, fence], fence) for key, fence in rows(statement, values)}

        return self._run(verdicts, settle, lambda held: held)

    def _run(self, verdicts: Sequence[Any], settle: Callable[[Rows], T], held_leases: Callable[[T], set[Pair]]) -> T:
        """The answer of `settle`, after the guards of these verdicts are changed; `held_leases` reads that answer."""

        def settle_guarded(rows: Rows) -> T:
            guards = lock_guards(self._dialect, rows, settlement_changes(verdicts))
            held = settle(rows)
            apply(self._dialect, rows, changes_of(verdicts, held_leases(held)), guards)
            return held

        if all(verdict.change is None for verdict in verdicts):
            return self._executor.run(settle, again=False)[0]
        return self._dialect.transact(settle_guarded)

    def _trim_failures(self, verdicts: Sequence[Nack | Abandon]) -> None:
        ids = [v.lease.id for v in verdicts if v.failure and v.lease.fence > KEPT_FAILURES]
        if ids:
            self._executor.ask(TRIM_FAILURES, {"ids": text_array(ids), "keep": KEPT_FAILURES})


def _ends(verdicts: Sequence[Ack]) -> dict[str, str]:
    """The columns of outcomes."""
    return {
        "uniques": _uniques(verdicts),
        "states": _column([v.state for v in verdicts], "done", text_array),
        "seconds": _column(["NULL" if v.run else v.seconds for v in verdicts], "NULL", number_array),
        "reasons": _column([v.reason for v in verdicts], None, text_array),
        "outputs": _column([v.output for v in verdicts], None, text_array),
        "sizes": number_array([len(v.lease.body) for v in verdicts]),
        "runs": text_array([msgspec.json.encode(v.run).decode() if v.run else None for v in verdicts]),
    }


def _column(values: list[Any], usual: Any, array: Callable[[list[Any]], str]) -> str:
    """The values as an array, which is empty if all are the usual one."""
    return "{}" if values.count(usual) == len(values) else array(values)


def _uniques(verdicts: Sequence[Ack | Abandon]) -> str:
    return number_array([v.lease.token for v in verdicts if v.lease.is_unique])


def _charges(verdicts: Sequence[Nack | Abandon]) -> dict[str, str]:
    return {
        "ids": text_array([v.lease.id for v in verdicts]),
        "records": text_array([msgspec.json.encode(v.failure).decode() if v.failure else None for v in verdicts]),
        "attempts": number_array([int(v.charge == "attempt") for v in verdicts]),
        "crashes": number_array([int(v.charge == "crash") for v in verdicts]),
    }


def _key(verdict: Ack | Nack | Abandon) -> int:
    key: int = verdict.lease.token
    return key
