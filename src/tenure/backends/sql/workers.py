"""SqlWorkers and SqlStats: the workers that are alive, and what they count.

Statistics have one row for each time slot, queue, handler and worker. A worker writes only its own rows, so that no
worker waits for another.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import WorkerRecord
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import Counts, Tally, merge_workers

ADD_WORKER = "INSERT INTO tenure_worker (id, expires, record) VALUES (:id, :expires, :record)"
DROP_WORKER = "DELETE FROM tenure_worker WHERE id = :id"
DEAD_WORKERS = "SELECT id FROM tenure_worker WHERE expires <= :now ORDER BY id LIMIT :limit"
DROP_DEAD_WORKERS = "DELETE FROM tenure_worker WHERE id IN :ids AND expires <= :now"
ALIVE_WORKERS = "SELECT record FROM tenure_worker WHERE expires > :now"
_COLUMNS = "slot, queue, handler, worker, record"
_SAME = "slot = :slot AND queue = :queue AND handler = :handler AND worker = :worker"
SAVE_TALLY = f"INSERT INTO tenure_tally ({_COLUMNS}) VALUES (:slot, :queue, :handler, :worker, :record)"
DROP_TALLY = f"DELETE FROM tenure_tally WHERE {_SAME}"
SAME_TALLY = f"SELECT {_COLUMNS} FROM tenure_tally WHERE {_SAME} FOR UPDATE"
TALLIES = f"SELECT {_COLUMNS} FROM tenure_tally WHERE slot >= :since AND slot < :until ORDER BY slot"
UNFOLDED = f"""
SELECT {_COLUMNS} FROM tenure_tally WHERE worker > '' AND slot < :before ORDER BY worker, slot LIMIT :limit FOR UPDATE
"""
OLD_TALLIES = "SELECT slot, queue, handler, worker FROM tenure_tally WHERE slot < :before ORDER BY slot LIMIT :limit"

_decode = msgspec.json.Decoder(Counts).decode


class SqlWorkers:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def announce(self, worker: WorkerRecord, seconds: float) -> None:
        expires = self._dialect.now() + round(seconds * MICROSECOND)
        row = {"id": worker.id, "expires": expires, "record": msgspec.json.encode(worker).decode()}

        def replace(rows: Rows) -> None:
            rows(DROP_WORKER, {"id": worker.id})
            rows(ADD_WORKER, row)

        self._dialect.transact(replace)

    def remove(self, id: str) -> None:
        self._dialect.transact(lambda rows: rows(DROP_WORKER, {"id": id}))

    def drop_dead(self, limit: int) -> int:
        now = self._dialect.now()
        dead = [id for (id,) in self._dialect.read(DEAD_WORKERS, {"now": now, "limit": limit})]
        if dead:
            self._dialect.transact(lambda rows: rows(DROP_DEAD_WORKERS, {"ids": dead, "now": now}))
        return len(dead)

    def alive(self) -> list[WorkerRecord]:
        rows = self._dialect.read(ALIVE_WORKERS, {"now": self._dialect.now()})
        found = [msgspec.json.decode(record, type=WorkerRecord) for (record,) in rows]
        return sorted(found, key=lambda worker: worker.started_at)


class SqlStats:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def save(self, tallies: Sequence[Tally]) -> None:
        def write(rows: Rows) -> None:
            for tally in tallies:
                _replace(rows, tally)

        if tallies:
            self._dialect.transact(write)

    def read(self, since: int, until: int) -> list[Tally]:
        return [_tally(row) for row in self._dialect.read(TALLIES, {"since": since, "until": until})]

    def fold(self, before: int, limit: int) -> int:
        if not self._dialect.read(UNFOLDED.replace("FOR UPDATE", ""), {"before": before, "limit": 1}):
            return 0

        def add_up(rows: Rows) -> int:
            unfolded = [_tally(row) for row in rows(UNFOLDED, {"before": before, "limit": limit})]
            for whole in merge_workers(unfolded):
                known = [_tally(row) for row in rows(SAME_TALLY, _key(whole))]
                _replace(rows, *merge_workers([whole, *known]))
            for tally in unfolded:
                rows(DROP_TALLY, _key(tally))
            return len(unfolded)

        return self._dialect.transact(add_up)

    def drop(self, before: int, limit: int) -> int:
        old = self._dialect.read(OLD_TALLIES, {"before": before, "limit": limit})

        def delete(rows: Rows) -> None:
            for slot, queue, handler, worker in old:
                rows(DROP_TALLY, {"slot": slot, "queue": queue, "handler": handler, "worker": worker})

        if old:
            self._dialect.transact(delete)
        return len(old)


def _replace(rows: Rows, tally: Tally) -> None:
    rows(DROP_TALLY, _key(tally))
    rows(SAVE_TALLY, {**_key(tally), "record": msgspec.json.encode(tally.counts).decode()})


def _key(tally: Tally) -> dict[str, Any]:
    return {"slot": tally.slot, "queue": tally.queue, "handler": tally.handler, "worker": tally.worker}


def _tally(row: Row) -> Tally:
    slot, queue, handler, worker, record = row
    return Tally(slot, queue, handler, worker, _decode(record))
