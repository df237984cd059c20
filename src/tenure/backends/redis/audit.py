"""RedisAuditLog: what users did: a hash of records, a sorted set of their ids and one of their times.

All its keys share one hash tag, so that each verb is one step.
"""

from tenure.backends.records import AuditRecord, decode_audit, encode
from tenure.backends.redis.connections import Argument, RedisClient, with_retries
from tenure.backends.redis.scripts import KeyNames, Scripts


class RedisAuditLog:
    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames) -> None:
        self._client = client
        self._scripts = scripts
        self._key = names.audit

    def save(self, record: AuditRecord) -> None:
        arguments: list[Argument] = [record.id, record.at, encode(record)]
        with_retries(lambda: self._scripts.run("save_audit", self._key, arguments))

    def find(self, id: str) -> AuditRecord | None:
        found = with_retries(lambda: self._client.ask("HGET", f"{self._key}:records", id))
        return None if found is None else decode_audit(found)

    def page(self, *, limit: int, before: str | None = None) -> list[AuditRecord]:
        arguments: list[Argument] = ["+" if before is None else f"({before}", limit]
        return [
            decode_audit(record)
            for record in with_retries(lambda: self._scripts.run("page_audit", self._key, arguments))
        ]

    def trim(self, before: int, limit: int) -> int:
        return int(self._scripts.run("trim_audit", self._key, [before, limit]))
