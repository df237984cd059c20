"""SqlPayloads: the payloads of ended jobs, which are erased long before the jobs are deleted.

A mark for each state and queue says up to which outcome the payloads are erased, so that no row is looked at twice.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.records import PayloadSize
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.jobs import ERASE, SqlJobs
from tenure.clock import MICROSECOND
from tenure.events import ENDED_WELL

_MARGIN = 60 * MICROSECOND  # an outcome may be committed after a later one
_AFTER_MARK = "state = :state AND queue = :queue AND finished >= :value AND (finished > :value OR key > :place)"
KEPT = f"SELECT count(*), coalesce(sum(size), 0) FROM tenure_outcome WHERE {_AFTER_MARK}"
OLDEST = f"""
SELECT finished, key, size FROM tenure_outcome WHERE {_AFTER_MARK} AND finished < :before
ORDER BY finished, key LIMIT :limit
"""
MARK = "SELECT value, place FROM tenure_mark WHERE name = :name"
ADD_MARK = "INSERT INTO tenure_mark (name, value, place) VALUES (:name, 0, 0) ON CONFLICT DO NOTHING"
MOVE_MARK = """
UPDATE tenure_mark SET value = :value, place = :place
WHERE name = :name AND (value < :value OR (value = :value AND place < :place))
"""


class _Group(NamedTuple):
    """The jobs that ended in one state and queue, and the place up to which their payloads are erased."""

    state: str
    queue: str
    value: int
    place: int

    @property
    def mark(self) -> str:
        return f"payloads {self.state} {self.queue}"


class SqlPayloads:
    def __init__(self, dialect: Dialect, jobs: SqlJobs) -> None:
        self._dialect = dialect
        self._jobs = jobs

    def kept(self) -> PayloadSize:
        sizes = [self._dialect.read(KEPT, group._asdict())[0] for group in self._groups()]
        return PayloadSize(sum(jobs for jobs, _ in sizes), sum(int(size) for _, size in sizes))

    def erase(self, before: int, limit: int, excess: int = 0) -> PayloadSize:
        settled = self._dialect.now() - _MARGIN
        found = sorted(
            (*row, group)
            for group in self._groups()
            for row in self._dialect.read(OLDEST, {**group._asdict(), "before": settled, "limit": limit})
        )
        taken: dict[_Group, list[Row]] = {}
        erased = 0
        for finished, key, size, group in found[:limit]:
            if finished >= before and erased >= excess:
                break
            taken.setdefault(group, []).append((finished, key))
            erased += size
        for group, rows in taken.items():
            self._erase(group, rows)
        return PayloadSize(sum(map(len, taken.values())), erased)

    def _groups(self) -> list[_Group]:
        return [
            _Group(state, queue, *self._mark(_Group(state, queue, 0, 0).mark))
            for state in ENDED_WELL
            for queue in self._jobs.queues_with(state)
        ]

    def _mark(self, name: str) -> Row:
        found = self._dialect.read(MARK, {"name": name})
        return found[0] if found else (0, 0)

    def _erase(self, group: _Group, ended: Sequence[Row]) -> None:
        value, place = ended[-1]

        def erase(rows: Rows) -> None:
            rows(ERASE, {"keys": [key for _, key in ended]})
            rows(ADD_MARK, {"name": group.mark})
            rows(MOVE_MARK, {"name": group.mark, "value": value, "place": place})

        self._dialect.transact_volatile(erase)
