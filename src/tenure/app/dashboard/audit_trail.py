"""AuditTrail: writes the record of an action at its beginning, while it runs, and at its end, also when it fails."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from tenure.app.tenure import Tenure
from tenure.backends.parts import AuditLog
from tenure.backends.records import AuditRecord
from tenure.definition.job import new_id
from tenure.redaction import one_line

logger = logging.getLogger(__name__)

_MAX_TARGET = 2000  # characters


class AuditTrail:
    """The audit log of an app; where the backend keeps none, actions are only logged."""

    def __init__(self, app: Tenure) -> None:
        self._app = app

    @property
    def log(self) -> AuditLog | None:
        return self._app.parts().audit

    def find(self, id: str) -> AuditRecord | None:
        return None if self.log is None else self.log.find(id)

    def begin(
        self,
        actor: str,
        action: str,
        target: str,
        why: str | None,
        origin: str,
        *,
        total: int | None = None,
        id: str | None = None,
    ) -> AuditRecord:  # fmt: skip
        """Write the record of an action that begins now."""
        text = target if len(target) <= _MAX_TARGET else f"{target[:_MAX_TARGET]}…"
        record = AuditRecord(
            id=id or new_id(),
            at=self._app.clock.now(),
            actor=actor,
            action=action,
            target=text,
            why=why or None,
            origin=origin,
            state="running",
            total=total,
        )
        self.save(record)
        return record

    def save(self, record: AuditRecord) -> None:
        if (log := self.log) is not None:
            log.save(record)

    def end(self, record: AuditRecord, state: str, counts: Counter[str], error: str | None = None) -> AuditRecord:
        """Write how an action ended."""
        ended = structs.replace(record, state=state, counts=dict(counts), ended_at=self._app.clock.now(), error=error)
        self.save(ended)
        logger.info(
            "%s of %s by %s: %s", record.action, one_line(record.target), one_line(record.actor), state,
            extra={"audit": record.id},
        )  # fmt: skip
        return ended

    @contextmanager
    def recorded(self, actor: str, action: str, target: str, why: str | None, origin: str) -> Iterator[Counter[str]]:
        """Record what happens in the block; the block adds to the counts how many had each result."""
        record, counts = self.begin(actor, action, target, why, origin), Counter[str]()
        try:
            yield counts
        except BaseException as error:
            self.end(record, "failed", counts, str(error) or type(error).__qualname__)
            raise
        self.end(record, "done", counts)
