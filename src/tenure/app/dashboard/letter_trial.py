"""The trial of a replay: a few letters run first, and the rest is offered when all of them succeeded.

The ids of a trial are kept in the audit log, so that it can be followed after a reload, and by other users.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import parse_qs, urlencode

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.letter_selection import LetterSelection
from tenure.backends.job_filter import failure_text
from tenure.backends.records import AuditRecord, JobRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition.job import new_id
from tenure.events import END_STATES

MAX_TRIAL = 50  # letters: a page looks each of them up
TRIAL_ACTION = "dead.trial"
_KEPT_SECONDS = 6 * 3600  # an older trial says little about a replay now
_READ_RECORDS = 200
_SHARED_SECONDS = 1.0


class TrialLetter(Struct, frozen=True, kw_only=True):
    """`state` is succeeded, died, ended (cancelled or expired), running (or waiting) or unknown."""

    id: str
    name: str | None
    state: str
    error: str | None = None


class Trial(Struct, frozen=True, kw_only=True):
    """How the letters of a trial go."""

    id: str
    at: datetime
    by: str
    letters: tuple[TrialLetter, ...]

    def count(self, state: str) -> int:
        return sum(letter.state == state for letter in self.letters)

    @property
    def is_running(self) -> bool:
        return any(letter.state in ("running", "unknown") for letter in self.letters)

    @property
    def ended_well(self) -> bool:
        return all(letter.state == "succeeded" for letter in self.letters)


def save_trial(sources: Sources, access: Access, selection: LetterSelection, ids: Sequence[str], token: str) -> None:
    """Keep the ids of a trial that begins now; nothing is kept where there is no audit log."""
    audit = sources.parts.audit
    if audit is None:
        return
    now = sources.app.clock.now()
    pairs = [("filter", selection.filter), ("group", selection.group), ("token", token), *(("id", id) for id in ids)]
    audit.save(
        AuditRecord(
            id=new_id(),
            at=now,
            actor=access.user,
            action=TRIAL_ACTION,
            target=urlencode([(name, value) for name, value in pairs if value]),
            total=len(ids),
            ended_at=now,
        )
    )


def has_token(sources: Sources, token: str) -> bool:
    """Whether a form with this token was sent before."""
    return any(_fields(record).get("token") == [token] for record in _trials(sources))


def last_trial(sources: Sources, access: Access, selection: LetterSelection) -> Trial | None:
    """The last trial of this selection, if there was one lately."""
    wanted = (selection.filter, selection.group)
    for record in sources.shared("trials", _SHARED_SECONDS, lambda: _trials(sources)):
        fields = _fields(record)
        if wanted == ("".join(fields.get("filter", [])), "".join(fields.get("group", []))):
            return _trial(sources, access, record, fields.get("id", []))
    return None


def _trials(sources: Sources) -> list[AuditRecord]:
    """The last trials, the newest first."""
    audit = sources.parts.audit
    if audit is None:
        return []
    since = sources.app.clock.now() - _KEPT_SECONDS * MICROSECOND
    return [
        record for record in audit.page(limit=_READ_RECORDS) if record.action == TRIAL_ACTION and record.at >= since
    ]


def _fields(record: AuditRecord) -> Mapping[str, list[str]]:
    return parse_qs(record.target)


def _trial(sources: Sources, access: Access, record: AuditRecord, ids: Sequence[str]) -> Trial:
    found = sources.shared(f"trial {record.id}", _SHARED_SECONDS, lambda: [sources.parts.find(id) for id in ids])
    letters = [
        _letter(id, job, record.at) for id, job in zip(ids, found, strict=True) if job is None or access.sees(job.queue)
    ]
    if access.redact is not None:
        letters = [TrialLetter(id=each.id, name=None, state=each.state) for each in letters]
    return Trial(id=record.id, at=to_datetime(record.at), by=record.actor, letters=tuple(letters))


def _letter(id: str, job: JobRecord | None, began: int) -> TrialLetter:
    if job is None:
        return TrialLetter(id=id, name=None, state="unknown")
    if job.state == "done":
        return TrialLetter(id=id, name=job.name, state="succeeded")
    if job.state == "dead" and (job.finished_at or 0) >= began:
        error = failure_text(job.failures[-1]) if job.failures else job.reason
        return TrialLetter(id=id, name=job.name, state="died", error=error)
    # The record of a broker's job says that it is dead until it has ended again.
    is_over = job.state in END_STATES and job.state != "dead"
    return TrialLetter(id=id, name=job.name, state="ended" if is_over else "running")
