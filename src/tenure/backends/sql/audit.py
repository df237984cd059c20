"""SqlAuditLog: what users did, one row each; the record itself is JSON."""

from tenure.backends.records import AuditRecord, decode_audit, encode
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.backends.sql.job_lookup import end_of_prefix

# Of two processes that save one new record at once, the later one waits for the row, and replaces it.
ADD = "INSERT INTO tenure_audit (id, at, record) VALUES (:id, :at, :record) ON CONFLICT DO NOTHING"
REPLACE = "UPDATE tenure_audit SET at = :at, record = :record WHERE id = :id"
FIND = "SELECT record FROM tenure_audit WHERE id = :id"
PAGE = "SELECT record FROM tenure_audit WHERE id < :before ORDER BY id DESC LIMIT :limit"
OLD = "SELECT id FROM tenure_audit WHERE at < :before ORDER BY at, id LIMIT :limit"
DROP = "DELETE FROM tenure_audit WHERE id IN :ids"
_AFTER_ALL_IDS = end_of_prefix("")


class SqlAuditLog:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def save(self, record: AuditRecord) -> None:
        row = {"id": record.id, "at": record.at, "record": encode(record).decode()}

        def write(rows: Rows) -> None:
            rows(ADD, row)
            rows(REPLACE, row)

        self._dialect.transact(write)

    def find(self, id: str) -> AuditRecord | None:
        found = self._dialect.read(FIND, {"id": id})
        return decode_audit(found[0][0]) if found else None

    def page(self, *, limit: int, before: str | None = None) -> list[AuditRecord]:
        found = self._dialect.read(PAGE, {"before": before or _AFTER_ALL_IDS, "limit": limit})
        return [decode_audit(record) for (record,) in found]

    def trim(self, before: int, limit: int) -> int:
        old = [id for (id,) in self._dialect.read(OLD, {"before": before, "limit": limit})]
        if old:
            self._dialect.transact(lambda rows: rows(DROP, {"ids": old}))
        return len(old)
