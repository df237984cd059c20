"""The actions on jobs: retry, cancel, reschedule and delete, for one job, for selected ones, or for a whole filter."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.filters import from_canonical
from tenure.app.dashboard.job_selection import (
    MAX_SELECTED,
    STEP,
    ActionEffects,
    Selection,
    SelectionCount,
    batches,
    tally,
)
from tenure.app.dashboard.letter_index import forget_letters
from tenure.backends.records import JobRecord
from tenure.definition.duration import to_seconds
from tenure.definition.moment import to_instant
from tenure.errors import ActionRefused, InvalidJob
from tenure.events import END_STATES, JOB_STATES, LIVE_STATES

_RESULTS = {  # what the results of `app.jobs` mean, for one job and for several
    "cancelled": ("was cancelled", "were cancelled"),
    "asked": ("was asked to stop", "were asked to stop"),
    "rescheduled": ("has a new start", "have a new start"),
    "replayed": ("was replayed", "were replayed"),
    "new": ("runs again as a new job", "run again as new jobs"),
    "deleted": ("was deleted", "were deleted"),
    "duplicate": ("waits or runs already under its unique text", "wait or run already under their unique texts"),
    "erased": ("has no payload any more", "have no payload any more"),
    "unreadable": ("can not be read", "can not be read"),
    "running": ("is running and was left alone", "are running and were left alone"),
    "waiting": ("waits already and was left alone", "wait already and were left alone"),
    "not_ended": ("has not ended and was left alone", "have not ended and were left alone"),
    "too_late": ("had ended before", "had ended before"),
    "unknown": ("is not known any more", "are not known any more"),
}
_AGAIN = "run again as new jobs, where the payload is still kept"


def _has_failed(job: JobRecord) -> bool:
    """A delayed job is tried again now only if it has failed before."""
    return job.state != "delayed" or job.attempts + job.crashes > 0


CANCEL = ActionEffects(
    states=LIVE_STATES,
    effects={
        **dict.fromkeys(("ready", "delayed", "parked"), "end at once"),
        "leased": "are asked to stop, within about a second",
    },
)
DELETE = ActionEffects(
    states=END_STATES, effects=dict.fromkeys(END_STATES, "are deleted for good, with all that is recorded about them")
)
RETRY = ActionEffects(
    states=("dead", "delayed"),
    effects={
        "delayed": "have failed, and are tried again now",
        "dead": "are replayed, with all their attempts",
        **dict.fromkeys(("done", "cancelled", "expired"), _AGAIN),
    },
    concerns=_has_failed,
)


class RetryJobs(Struct, frozen=True, kw_only=True):
    """Run dead letters, failed jobs in backoff and ended jobs again."""

    action: ClassVar[str] = "jobs.retry"
    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0

    def target(self) -> str:
        return str(_selection(self))

    def check(self, sources: Sources, access: Access) -> None:
        _selection(self).check()

    def preview(self, sources: Sources, access: Access) -> Preview:
        return _preview("Retry", tally(sources, access, _selection(self), RETRY), RETRY, self)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        return _steps(sources, access, self, RETRY, lambda ids: sources.app.jobs.retry(ids).counts)

    def outcome(self, counts: Mapping[str, int]) -> str:
        return outcome_text(counts)

    def undo(self) -> None:
        return None


class CancelJobs(Struct, frozen=True, kw_only=True):
    """End jobs that wait, and ask running ones to stop."""

    action: ClassVar[str] = "jobs.cancel"
    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0

    def target(self) -> str:
        return str(_selection(self))

    def check(self, sources: Sources, access: Access) -> None:
        _check_control(sources, "cancel")
        _selection(self).check()

    def preview(self, sources: Sources, access: Access) -> Preview:
        counted = tally(sources, access, _selection(self), CANCEL)
        return _preview("Cancel", counted, CANCEL, self, is_final=True)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        return _steps(sources, access, self, CANCEL, lambda ids: sources.app.jobs.cancel(ids).counts)

    def outcome(self, counts: Mapping[str, int]) -> str:
        return outcome_text(counts)

    def undo(self) -> None:
        return None


class RescheduleJobs(Struct, frozen=True, kw_only=True):
    """Let waiting jobs start after a `delay` such as "10m", `at` a time, or now."""

    action: ClassVar[str] = "jobs.reschedule"
    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0
    delay: str = ""
    at: str = ""

    def target(self) -> str:
        when = f" at {self.at}" if self.at else f" in {self.delay}" if self.delay else " now"
        return f"{_selection(self)}, to start{when}"

    def check(self, sources: Sources, access: Access) -> None:
        _check_control(sources, "reschedule")
        _selection(self).check()
        if self.delay and self.at:
            raise ActionRefused("a job can start after a delay or at a time, not both")
        try:
            to_seconds(self.delay or 0, "the delay")
            if self.at:
                to_instant(self.at, "the time", sources.app.clock.now(), sources.app.settings.timezone)
        except InvalidJob as error:
            raise ActionRefused(str(error)) from error

    def preview(self, sources: Sources, access: Access) -> Preview:
        change = self._change(sources)
        return _preview("Reschedule", tally(sources, access, _selection(self), change), change, self)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        jobs = sources.app.jobs
        return _steps(
            sources, access, self, self._change(sources),
            lambda ids: jobs.reschedule(ids, delay=self.delay or 0, at=self.at or None).counts,
        )  # fmt: skip

    def outcome(self, counts: Mapping[str, int]) -> str:
        return outcome_text(counts)

    def undo(self) -> None:
        return None

    def _change(self, sources: Sources) -> ActionEffects:
        start = "start now, or when their turn comes"
        if self.at:
            timezone = sources.app.settings.timezone
            instant = to_instant(self.at, "the time", sources.app.clock.now(), timezone)
            start = f"start at {instant:%Y-%m-%d %H:%M:%S} UTC, and not before"
        elif self.delay:
            start = f"start in {self.delay}, and not before"
        waiting = ("ready", "delayed", "parked")
        return ActionEffects(states=waiting, effects=dict.fromkeys(waiting, start))


class DeleteJobs(Struct, frozen=True, kw_only=True):
    """Delete ended jobs and dead letters for good."""

    action: ClassVar[str] = "jobs.delete"
    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0

    def target(self) -> str:
        return str(_selection(self))

    def check(self, sources: Sources, access: Access) -> None:
        _selection(self).check()

    def preview(self, sources: Sources, access: Access) -> Preview:
        counted = tally(sources, access, _selection(self), DELETE)
        return _preview("Delete", counted, DELETE, self, is_final=True)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        return _steps(sources, access, self, DELETE, lambda ids: sources.app.jobs.delete(ids).counts)

    def outcome(self, counts: Mapping[str, int]) -> str:
        return outcome_text(counts)

    def undo(self) -> None:
        return None


_Command = RetryJobs | CancelJobs | RescheduleJobs | DeleteJobs


def outcome_text(counts: Mapping[str, int]) -> str:
    """What became of the jobs, in a sentence."""
    parts = [(count, _RESULTS.get(result, (result, result))) for result, count in counts.items() if count]
    if not parts:
        return "No job was changed."
    text = ", ".join(f"{count:,} {words[count > 1]}" for count, words in parts)
    first = parts[0][0]
    number, _, rest = text.partition(" ")
    return f"{number} job{'s' if first > 1 else ''} {rest}."


def _selection(command: _Command) -> Selection:
    return Selection(ids=command.ids, all=command.all, filter=command.filter, before=command.before)


def _check_control(sources: Sources, verb: str) -> None:
    if sources.parts.control is None:
        raise ActionRefused(f"this backend can not {verb} jobs: it does not reach a job that waits")


def _steps(
    sources: Sources,
    access: Access,
    command: _Command,
    change: ActionEffects,
    apply: Callable[[list[str]], Mapping[str, int]],
) -> Iterator[Mapping[str, int]]:
    for ids in batches(sources, access, _selection(command), change):
        counts = apply(ids) if ids else {}
        forget_letters(sources, ids)
        yield counts
    sources.recorder.read_now()  # so that the page that follows counts what was changed


def _preview(
    verb: str, counted: SelectionCount, change: ActionEffects, command: _Command, *, is_final: bool = False
) -> Preview:
    total = counted.total
    if not total and not counted.is_more:
        raise ActionRefused(_nothing_to_do(verb, counted, change))
    number = f"{'more than ' if counted.is_more else ''}{total:,} job{'s' if total != 1 else ''}"
    name = number
    if total == 1 and counted.first is not None and not counted.left and not counted.unknown:
        name = " ".join(filter(None, (counted.first.handler, counted.first.name)))
    return Preview(
        question=f"{verb} {name}?",
        verb=f"{verb} {number}" if total != 1 else f"{verb} job",
        effects=tuple(
            Effect(change.effects[state], state, counted.changed[state])
            for state in JOB_STATES
            if counted.changed[state]
        ),
        notes=tuple(_notes(counted, command)),
        total=total,
        is_final=is_final,
        counted_at=counted.counted_at,
    )


def _nothing_to_do(verb: str, counted: SelectionCount, change: ActionEffects) -> str:
    left = ", ".join(f"{count:,} {_shown(state)}" for state, count in counted.left.items())
    states = ", ".join(_shown(state) for state in change.effects)
    found = f"the selected jobs are {left}" if left else "no job of the selection is known any more"
    return f"there is nothing to {verb.lower()}: {found}; only {states} jobs can be changed so"


def _notes(counted: SelectionCount, command: _Command) -> Iterator[str]:
    if command.all:
        yield f"These are all jobs that match {from_canonical(command.filter) or 'an empty filter'}."
    if counted.left:
        left = ", ".join(f"{counted.left[state]:,} {_shown(state)}" for state in JOB_STATES if counted.left[state])
        whose = "of the filter" if command.all else "of the selection"
        yield f"Left alone are these jobs {whose}: {left}."
    if counted.unknown:
        yield f"{counted.unknown:,} of the selected jobs {'is' if counted.unknown == 1 else 'are'} not known any more."
    if command.all:
        yield (
            f"Jobs enqueued from now on are left alone too. It runs in steps of {STEP} and can be stopped between them."
        )
    if counted.is_more:
        yield f"The count stopped there. All are changed, up to {MAX_SELECTED:,} at once."
    elif counted.total > MAX_SELECTED:
        yield f"At most {MAX_SELECTED:,} jobs are changed at once: do it again for the rest."


def _shown(state: str) -> str:
    return "running" if state == "leased" else state
