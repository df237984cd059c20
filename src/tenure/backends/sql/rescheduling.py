"""SqlRescheduling: jobs that wait are put off, or brought forward, in one transaction."""

from collections.abc import Sequence

from tenure.backends.asking import Turn
from tenure.backends.sql import statements as sql
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.steering import each_of
from tenure.clock import MICROSECOND


class SqlRescheduling:
    """Rows move between the tables of those that wait, with their counters."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, Turn]:
        def work(rows: Rows) -> dict[str, Turn]:
            now = self._dialect.time_in(rows)
            moment = due or now + round(delay * MICROSECOND)
            return each_of(rows, ids, lambda rows, left: self._look(rows, left, moment, now))

        return self._dialect.transact(work) if ids else {}

    def _look(self, rows: Rows, ids: list[str], due: int, now: int) -> dict[str, Turn]:
        ready, delayed, parked = (rows(table, {"ids": ids}) for table in (sql.READY, sql.DELAYED, sql.PARKED))
        waiting = [*ready, *delayed, *parked]
        if waiting:
            rows(sql.RESCHEDULE, {**_keys(waiting), "due": due})
            places = rows(sql.PLACES, _keys(waiting))
            if due > now:
                _put_off(rows, due, places, ready, delayed, parked)
            else:
                _bring_forward(rows, delayed, parked)
            self._dialect.tell(rows, {queue for queue, _ in places})
        moved: dict[str, Turn] = dict.fromkeys([id for _, id in waiting], "rescheduled")
        left = [id for id in ids if id not in moved]
        running = rows(sql.LEASED, {"ids": left}) if left else []
        return moved | dict.fromkeys([id for (id,) in running], "running")


def _put_off(rows: Rows, due: int, places: list[Row], ready: list[Row], delayed: list[Row], parked: list[Row]) -> None:
    if delayed:
        rows(sql.PUT_OFF_DELAYED, {**_keys(delayed), "due": due})
    if parked:
        rows(sql.PUT_OFF_PARKED, {**_keys(parked), "due": due})
        rows(sql.DROP_PARKED, _keys(parked))
    for queue, rank in places if ready else ():
        place = {**_keys(ready), "queue": queue, "rank": rank}
        rows(sql.PUT_OFF_READY, {**place, "due": due})
        rows(sql.DROP_READY, place)


def _bring_forward(rows: Rows, delayed: list[Row], parked: list[Row]) -> None:
    for waiting, bring, drop in (
        (delayed, sql.BRING_DELAYED, sql.DROP_DELAYED),
        (parked, sql.BRING_PARKED, sql.DROP_PARKED),
    ):
        if waiting:
            rows(bring, _keys(waiting))
            rows(drop, _keys(waiting))


def _keys(waiting: list[Row]) -> dict[str, list[int]]:
    return {"keys": [key for key, _ in waiting]}
