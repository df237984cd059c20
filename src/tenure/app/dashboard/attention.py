"""What needs attention: one sentence a finding, problems before warnings, then the newest first."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.checks import Examination, last_examination
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.figures import Figures, OpenBreaker, QueueFigures
from tenure.app.dashboard.series import SlotSeries, slots_of
from tenure.app.dashboard.workers import SILENT_SECONDS, beat_age, seen_workers
from tenure.backends.records import WorkerRecord
from tenure.clock import to_datetime
from tenure.metrics.statistics import Tally
from tenure.worker.heartbeat import HEARTBEAT_TIMEOUT

Signal = Literal["problem", "warning"]
_HOUR_SLOTS = 12
_MANY_DEATHS = 10  # in an hour
_MINUTES_FROM = 100  # seconds, above which a length is shown in minutes
_MANY_WORKERS = 2  # more silent ones make one line
_OWN_CHECKS = {"dead letters", "workers"}  # of the doctor, whose warnings have lines of their own here


class Words(Struct, frozen=True):
    """A part of a sentence; names are `strong`."""

    text: str
    strong: bool = False


class Attention(Struct, frozen=True, kw_only=True):
    """A finding: `code` names its kind for programs, `link` is the path of the page where it can be solved.

    With `changes`, the link leads to the confirmation of an action.
    """

    code: str
    signal: Signal
    words: tuple[Words, ...]
    link: str
    label: str
    since: datetime | None = None
    until: datetime | None = None
    changes: bool = False

    @property
    def sentence(self) -> str:
        return "".join(each.text for each in self.words)


def needs_attention(sources: Sources, access: Access, queues: Sequence[QueueFigures]) -> tuple[Attention, ...]:
    """The findings about these queues, which the user sees, and about what the user may read beside them."""
    figures = sources.figures
    found = [
        *_stale(figures),
        *(line for each in figures.open_breakers for line in _open_breaker(each, access, sources.now)),
        *_deaths(slots_of(sources, "24h", access.queues)),
        *(_paused(each, access) for each in queues if each.paused_since is not None and each.waiting),
        *_silent_workers(sources, access),
        *(_unserved(each) for each in queues if _is_unserved(each, figures)),
        *(_findings(last_examination(sources)) if access.may_read("doctor") else ()),
    ]
    newest_first = sorted(found, key=lambda each: each.since.timestamp() if each.since else 0.0, reverse=True)
    return tuple(sorted(newest_first, key=lambda each: each.signal))  # "problem" comes before "warning"


def _stale(figures: Figures) -> Iterator[Attention]:
    if figures.error is not None:
        words = (Words("The backend does not answer, so the figures are old: "), Words(figures.error))
        yield Attention(
            code="backend_stale",
            signal="problem",
            words=words,
            link="/doctor",
            label="Doctor",
            since=figures.error_since,
        )


def _open_breaker(breaker: OpenBreaker, access: Access, now: datetime) -> Iterator[Attention]:
    parked = {queue: count for queue, count in breaker.parked.items() if access.sees(queue)}
    if not parked and access.queues is not None:
        return  # it holds back no job that this user sees
    probe = max(0, round((breaker.probes_at - now).total_seconds()))
    words = [Words("Breaker "), Words(breaker.name, strong=True), Words(" is open: ")]
    words += [*_parked_words(parked), Words(f", next probe in {_length(probe)}")]
    link, label = f"/guards?{urlencode({'kind': 'breaker', 'key': breaker.name})}", "Open guard"
    if not access.may_read("guards"):
        link, label = f"/jobs?{urlencode([('state', 'parked'), *(('queue', queue) for queue in parked)])}", "Jobs"
    yield Attention(
        code="breaker_open",
        signal="problem",
        words=tuple(words),
        link=link,
        label=label,
        since=breaker.opened_at,
    )


def _parked_words(parked: dict[str, int]) -> list[Words]:
    count = sum(parked.values())
    if not count:
        return [Words("no job is parked")]
    first = max(parked, key=lambda queue: parked[queue])
    others = f" and {len(parked) - 1} more queues" if len(parked) > 1 else ""
    return [Words(f"{_jobs(count)} of "), Words(first, strong=True), Words(f"{others} {_are(count)} parked")]


def _deaths(slots: SlotSeries) -> Iterator[Attention]:
    """Deaths of the last hour, if there are more than in the hour before."""
    hour = _died(slots, slots.starts[-_HOUR_SLOTS:])
    before = _died(slots, slots.starts[-2 * _HOUR_SLOTS : -_HOUR_SLOTS])
    count, count_before = (sum(count for _, count in each) for each in (hour, before))
    if count <= count_before:
        return
    by_handler: dict[str, int] = {}
    for tally, died in hour:
        by_handler[tally.handler] = by_handler.get(tally.handler, 0) + died
    worst = max(by_handler, key=lambda handler: by_handler[handler])
    words = [Words(f"{_jobs(count)} died in the last hour, {count_before:,} in the hour before")]
    if worst:
        most = "" if len(by_handler) == 1 else "most of them of "
        words += [Words(f": {most}"), Words(worst, strong=True)]
    times = [tally.slot for tally, _ in hour]
    yield Attention(
        code="deaths",
        signal="problem" if count >= _MANY_DEATHS else "warning",
        words=tuple(words),
        link="/dead",
        label="Dead letters",
        since=to_datetime(min(times)),
        until=to_datetime(max(times)) + timedelta(seconds=slots.length(max(times))),
    )


def _died(slots: SlotSeries, starts: Sequence[int]) -> list[tuple[Tally, int]]:
    wanted = set(starts)
    found = [(tally, deaths(tally)) for tally in slots.tallies if tally.slot in wanted]
    return [(tally, died) for tally, died in found if died]


def deaths(tally: Tally) -> int:
    """How many jobs died in this slot."""
    return tally.counts.statuses.get("dead-lettered", 0) + tally.counts.statuses.get("rejected", 0)


def _paused(queue: QueueFigures, access: Access) -> Attention:
    reason = f", “{queue.pause_reason}”" if queue.pause_reason else ""
    words = (
        Words("Queue "),
        Words(queue.name, strong=True),
        Words(f" is paused{reason}: {_jobs(queue.waiting)} {'waits' if queue.waiting == 1 else 'wait'}"),
    )
    may = access.may("queue.resume")
    resume = f"/act/queue.resume?{urlencode({'queue': queue.name, 'back': '/'})}"
    return Attention(
        code="queue_paused",
        signal="warning",
        words=words,
        link=resume if may else "/queues",
        label="Resume" if may else "Queues",
        since=queue.paused_since,
        changes=may,
    )


def _silent_workers(sources: Sources, access: Access) -> Iterator[Attention]:
    silent = [each for each in seen_workers(sources.figures, access) if beat_age(each, sources.now) > SILENT_SECONDS]
    if len(silent) > _MANY_WORKERS:
        longest = min(silent, key=lambda worker: worker.seen_at)
        yield _silent(longest, (Words(f"{len(silent)} workers", strong=True), Words(" have")), "Workers", sources)
    else:
        for worker in silent:
            words = (Words("Worker "), Words(worker.host, strong=True), Words(f", pid {worker.pid}, has"))
            yield _silent(worker, words, "Worker", sources)


def _silent(worker: WorkerRecord, who: tuple[Words, ...], label: str, sources: Sources) -> Attention:
    age = beat_age(worker, sources.now)
    silence = f" been silent for {age:.0f} s; a worker is forgotten after {HEARTBEAT_TIMEOUT:.0f} s"
    return Attention(
        code="worker_silent",
        signal="warning",
        words=(*who, Words(silence)),
        link="/workers",
        label=label,
        since=to_datetime(worker.seen_at),
    )


def _is_unserved(queue: QueueFigures, figures: Figures) -> bool:
    return figures.workers is not None and bool(queue.ready) and not queue.workers and queue.paused_since is None


def _unserved(queue: QueueFigures) -> Attention:
    words = (
        Words("No worker listens on queue "),
        Words(queue.name, strong=True),
        Words(f": {_jobs(queue.ready)} {_are(queue.ready)} ready"),
    )
    return Attention(
        code="queue_unserved",
        signal="warning",
        words=words,
        link=f"/jobs?{urlencode({'state': 'ready', 'queue': queue.name})}",
        label="Jobs",
    )


def _findings(examination: Examination | None) -> Iterator[Attention]:
    for each in examination.findings if examination else ():
        if each.verdict == "problem" or (each.verdict == "warning" and each.check not in _OWN_CHECKS):
            words = (Words(each.check, strong=True), Words(f": {each.text}"))
            yield Attention(
                code=f"doctor:{each.check}", signal=each.verdict, words=words, link="/doctor", label="Doctor"
            )


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _length(seconds: int) -> str:
    return f"{seconds} s" if seconds < _MINUTES_FROM else f"{round(seconds / 60)} min"
