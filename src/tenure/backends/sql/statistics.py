"""SqlStatistics: what workers counted, a row for each stretch of time, queue, handler and worker."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.metrics.tally import Counts, Tally, folded

_COLUMNS = "slot, queue, handler, worker, record"
_SAME = "slot = :slot AND queue = :queue AND handler = :handler AND worker = :worker"
NOTE = f"INSERT INTO tenure_tally ({_COLUMNS}) VALUES (:slot, :queue, :handler, :worker, :record)"
FORGET = f"DELETE FROM tenure_tally WHERE {_SAME}"
SAME = f"SELECT {_COLUMNS} FROM tenure_tally WHERE {_SAME} FOR UPDATE"
TALLIES = f"SELECT {_COLUMNS} FROM tenure_tally WHERE slot >= :since AND slot < :until ORDER BY slot"
LOOSE = f"""
SELECT {_COLUMNS} FROM tenure_tally WHERE worker > '' AND slot < :before ORDER BY worker, slot LIMIT :limit FOR UPDATE
"""
OLD = "SELECT slot, queue, handler, worker FROM tenure_tally WHERE slot < :before ORDER BY slot LIMIT :limit"

_decode = msgspec.json.Decoder(Counts).decode


class SqlStatistics:
    """A worker writes only its own rows, so that none waits for another."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def note_tallies(self, tallies: Sequence[Tally]) -> None:
        def write(rows: Rows) -> None:
            for tally in tallies:
                _replace(rows, tally)

        if tallies:
            self._dialect.transact(write)

    def tallies(self, since: int, until: int) -> list[Tally]:
        return [_tally(row) for row in self._dialect.read(TALLIES, {"since": since, "until": until})]

    def fold_tallies(self, before: int, limit: int) -> int:
        if not self._dialect.read(LOOSE.replace("FOR UPDATE", ""), {"before": before, "limit": 1}):
            return 0

        def fold(rows: Rows) -> int:
            loose = [_tally(row) for row in rows(LOOSE, {"before": before, "limit": limit})]
            for whole in folded(loose):
                known = [_tally(row) for row in rows(SAME, _key(whole))]
                _replace(rows, *folded([whole, *known]))
            for tally in loose:
                rows(FORGET, _key(tally))
            return len(loose)

        return self._dialect.transact(fold)

    def drop_tallies(self, before: int, limit: int) -> int:
        old = self._dialect.read(OLD, {"before": before, "limit": limit})

        def delete(rows: Rows) -> None:
            for slot, queue, handler, worker in old:
                rows(FORGET, {"slot": slot, "queue": queue, "handler": handler, "worker": worker})

        if old:
            self._dialect.transact(delete)
        return len(old)


def _replace(rows: Rows, tally: Tally) -> None:
    rows(FORGET, _key(tally))
    rows(NOTE, {**_key(tally), "record": msgspec.json.encode(tally.counts).decode()})


def _key(tally: Tally) -> dict[str, Any]:
    return {"slot": tally.slot, "queue": tally.queue, "handler": tally.handler, "worker": tally.worker}


def _tally(row: Row) -> Tally:
    slot, queue, handler, worker, record = row
    return Tally(slot, queue, handler, worker, _decode(record))
