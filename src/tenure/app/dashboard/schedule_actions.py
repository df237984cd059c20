"""What users do with schedules: pause and resume one or all of them, and run one now."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.schedules import ledger_of, seen_schedules
from tenure.backends.ledger import ALL_SCHEDULES, Ledger
from tenure.clock import MICROSECOND
from tenure.cron.decision import reason_to_skip
from tenure.cron.schedule import Schedule
from tenure.errors import ActionRefused, InvalidSchedule

_FORM_SECONDS = 3600  # a form that is sent twice is sent twice within this time
_READ_TICKS = 100
_REPEATED = "run_before"


class PauseSchedule(Struct, frozen=True, kw_only=True):
    """Skip the ticks of a schedule, or of all schedules if no name is given, until it is resumed."""

    action: ClassVar[str] = "schedule.pause"
    name: str = ALL_SCHEDULES

    def target(self) -> str:
        return self.name or "all schedules"

    def check(self, sources: Sources, access: Access) -> None:
        _required_ledger(sources)
        _check_name(sources, access, self.action, self.name)

    def preview(self, sources: Sources, access: Access) -> Preview:
        return Preview(
            question=f"Pause schedule {self.name}?" if self.name else "Pause all schedules?",
            verb="Pause",
            effects=(Effect("ticks are skipped until it is resumed, and not made up for"),),
            notes=("Jobs of earlier ticks, which wait or run, go on.",),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        was_paused = self.name in _required_ledger(sources).paused()
        sources.app.cron.pause(self.name or None)
        yield {"paused": int(not was_paused)}

    def outcome(self, counts: Mapping[str, int]) -> str:
        what = f"{self.name} is" if self.name else "All schedules are"
        return f"{what} paused." if counts.get("paused") else f"{what} paused since before."

    def undo(self) -> "ResumeSchedule":
        return ResumeSchedule(name=self.name)


class ResumeSchedule(Struct, frozen=True, kw_only=True):
    """End the pause of a schedule, or the pause of all schedules if no name is given."""

    action: ClassVar[str] = "schedule.resume"
    name: str = ALL_SCHEDULES

    def target(self) -> str:
        return self.name or "all schedules"

    def check(self, sources: Sources, access: Access) -> None:
        """A schedule that is no longer declared can be resumed too, by who sees all queues."""
        is_known_pause = self.name in _required_ledger(sources).paused()
        if not (is_known_pause and access.queues is None):
            _check_name(sources, access, self.action, self.name)

    def preview(self, sources: Sources, access: Access) -> Preview:
        return Preview(
            question=f"Resume schedule {self.name}?" if self.name else "End the pause of all schedules?",
            verb="Resume",
            effects=(Effect("ticks run again, from the next one on"),),
            notes=() if self.name else ("Schedules that were paused one by one stay paused.",),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        was_paused = self.name in _required_ledger(sources).paused()
        sources.app.cron.resume(self.name or None)
        yield {"resumed": int(was_paused)}

    def outcome(self, counts: Mapping[str, int]) -> str:
        if not self.name:
            return "Schedules are resumed." if counts.get("resumed") else "All schedules at once were not paused."
        return f"{self.name} is resumed." if counts.get("resumed") else f"{self.name} was not paused."

    def undo(self) -> PauseSchedule:
        return PauseSchedule(name=self.name)


class RunSchedule(Struct, frozen=True, kw_only=True):
    """Run a schedule once, now, whether it is due, paused or ran a moment ago.

    `token` comes from the form: however often the form is sent, it runs once. Without it, each call runs it.
    """

    action: ClassVar[str] = "schedule.run"
    name: str
    token: str = ""

    def target(self) -> str:
        return self.name

    def check(self, sources: Sources, access: Access) -> None:
        _required_ledger(sources)
        if why := reason_to_skip(_schedule(sources, access, self.name), sources.app.settings.environment):
            raise ActionRefused(f"schedule {self.name!r} does not run here: {why}")

    def preview(self, sources: Sources, access: Access) -> Preview:
        schedule = _schedule(sources, access, self.name)
        where = "runs in this process" if schedule.inline else f"is put on queue {schedule.job.queue}"
        notes = ["Its next ticks come as before."]
        if schedule.job.depends_on:
            notes.append("It does not wait for the schedules that it depends on.")
        if schedule.overlap != "allow":
            notes.append("It does not start while an earlier tick has not ended, as the schedule says.")
        return Preview(
            question=f"Run {self.name} now?",
            verb="Run now",
            effects=(Effect(f"{schedule.job.handler} {where}, once"),),
            notes=tuple(notes),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        ledger = _required_ledger(sources)
        mine = object()  # two threads may handle a form that was sent twice: the first one takes it
        is_first = not self.token or sources.cache.setdefault(f"run {self.name} {self.token}", mine) is mine
        yield {self._run(sources, ledger) if is_first and not self._was_run(ledger) else _REPEATED: 1}

    def _run(self, sources: Sources, ledger: Ledger) -> str:
        """Run it, and return the state of its tick."""
        second = ledger.time() // MICROSECOND * MICROSECOND
        try:
            result = sources.app.cron.run_now(self.name, second + _fraction(self.token) if self.token else None)
        except InvalidSchedule as error:
            raise ActionRefused(str(error)) from error
        return result.record.state if result.is_new else _REPEATED

    def outcome(self, counts: Mapping[str, int]) -> str:
        texts = {
            "enqueued": "is enqueued",
            "intended": "is enqueued",
            "succeeded": "ran and succeeded",
            "failed": "failed: its last tick says why",
            "skipped": "was skipped: an earlier tick has not ended",
            "waiting": "waits until an earlier tick has ended",
            _REPEATED: "was run by this form before, and is not run again",
        }
        return f"{self.name} {next((texts[state] for state in counts if state in texts), 'was run')}."

    def undo(self) -> None:
        """The job may have run."""
        return

    def _was_run(self, ledger: Ledger) -> bool:
        """Whether a tick of this token was run: the fraction of its second is made from the token."""
        since = ledger.time() - _FORM_SECONDS * MICROSECOND
        ticks = ledger.history(self.name, limit=_READ_TICKS) if self.token else ()
        return any(each.tick >= since and each.tick % MICROSECOND == _fraction(self.token) for each in ticks)


def _fraction(token: str) -> int:
    """The microseconds of a run that a form asks for: 1 to 999 999."""
    return 1 + int.from_bytes(hashlib.sha256(token.encode()).digest()[:8]) % (MICROSECOND - 1)


def _required_ledger(sources: Sources) -> Ledger:
    ledger, why = ledger_of(sources)
    if ledger is None:
        raise ActionRefused(why or "this backend has no ledger of schedules")
    return ledger


def _check_name(sources: Sources, access: Access, action: str, name: str) -> None:
    if name == ALL_SCHEDULES:
        access.check_all_queues(action)
    else:
        _schedule(sources, access, name)


def _schedule(sources: Sources, access: Access, name: str) -> Schedule:
    """The schedule of this name; one of a queue that the user does not see is as unknown as one that does not exist."""
    seen = seen_schedules(sources, access)
    found = next((each for each in seen if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in seen[:20]) or "none"
        raise ActionRefused(f"no schedule is called {name!r:.200}; there are: {known}")
    return found
