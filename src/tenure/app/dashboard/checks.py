"""The doctor page: what the checks of `tenure doctor` found, read in the background and shared by all viewers."""

from collections import Counter
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.background import FIRST_WAIT_SECONDS, Answer
from tenure.app.dashboard.core import Sources
from tenure.app.doctor.checks import examine
from tenure.app.doctor.collect import collect_facts
from tenure.app.doctor.facts import Finding

FRESH_SECONDS = 60.0
AGAIN_SECONDS = 10.0  # between two runs that users ask for
_ORDER = ("problem", "warning", "ok", "not applicable")


class Examination(Struct, frozen=True):
    """What one run of the checks found, problems first."""

    at: datetime
    findings: tuple[Finding, ...]

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.findings)


class DoctorPage(Struct, frozen=True, kw_only=True):
    """The findings, None while the first run goes on; with an `error`, the last run failed."""

    at: datetime | None
    findings: tuple[Finding, ...] | None
    counts: dict[str, int] = {}
    is_running: bool = False
    error: str | None = None


class DoctorQuery(Struct, frozen=True, kw_only=True):
    """With `again` the checks run again, unless they ran some seconds ago."""

    page: ClassVar[str] = "doctor"
    again: bool = False

    def read(self, sources: Sources, access: Access) -> DoctorPage:
        found = _examination(sources, AGAIN_SECONDS if self.again else FRESH_SECONDS, FIRST_WAIT_SECONDS)
        if found.value is None:
            return DoctorPage(at=None, findings=None, is_running=found.is_reading, error=found.error)
        return DoctorPage(
            at=found.value.at,
            findings=found.value.findings,
            counts=dict(Counter(each.verdict for each in found.value.findings)),
            is_running=found.is_reading,
            error=found.error,
        )


def last_examination(sources: Sources) -> Examination | None:
    """What the checks found last, None if they have not run yet; never waits, and lets them run when it is time."""
    return _examination(sources, FRESH_SECONDS).value


def warning_count(sources: Sources) -> int:
    """How many problems and warnings the checks found; never waits."""
    found = last_examination(sources)
    return 0 if found is None else found.count("problem") + found.count("warning")


def _examination(sources: Sources, fresh: float, wait: float = 0.0) -> Answer[Examination]:
    return sources.background.get("the checks of the doctor", lambda: _examine(sources), fresh, wait)


def _examine(sources: Sources) -> Examination:
    findings = examine(collect_facts(sources.app, has_handlers=sources.has_handlers))
    return Examination(sources.now, tuple(sorted(findings, key=lambda each: _ORDER.index(each.verdict))))
