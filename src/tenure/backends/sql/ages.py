"""SqlAges: for how long the oldest job of a queue has waited, from the first few rows of each priority."""

from collections.abc import Sequence

from tenure.backends.sql.dialect import Dialect
from tenure.clock import MICROSECOND

_FEW = 5  # at the head of a priority may be jobs that came back, whose time of waiting nobody knows


def _first(rank: int) -> str:
    return f"""
SELECT * FROM (
    SELECT j.due, r.fence FROM tenure_ready AS r JOIN tenure_job AS j ON j.key = r.key
    WHERE r.queue = :queue AND r.rank = {rank} ORDER BY r.key LIMIT {_FEW}
) AS priority_{-rank}"""


READY = " UNION ALL ".join(_first(-priority) for priority in range(10))
OVERDUE = "SELECT min(due) FROM tenure_delayed WHERE queue = :queue AND due <= :now"


class SqlAges:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        now = self._dialect.now()
        found: dict[str, float] = {}
        for queue in queues:
            rows = self._dialect.read(READY, {"queue": queue})
            dues = [due for due, fence in rows if not fence] or [due for due, _ in rows]
            dues += [due for (due,) in self._dialect.read(OVERDUE, {"queue": queue, "now": now}) if due is not None]
            if dues:
                found[queue] = max(0, now - min(dues)) / MICROSECOND
        return found
