"""What a worker shows of its jobs on a terminal: a line for each job, or counts while too many jobs end for that.

The worker's settler calls it for each batch. While there are too many jobs it only counts them and looks for failures.
"""

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import click

from tenure.cli.errors import current_redactor
from tenure.cli.output import cut_to, format_seconds, short_id
from tenure.events import Settlement, Status
from tenure.redaction import one_line
from tenure.worker.pipeline import UNSTARTED

# 20: lines that come faster cannot be read, and a screen of 24 lines would last about a second.
JOBS_PER_SECOND = 20
# 5: of a flood of failures these are enough to see what is wrong; the others are counted.
FAILURES_PER_SECOND = 5
_STATUS_WORDS = {
    Status.ACKED: "done",
    Status.REQUEUED: "retried",
    Status.DEAD_LETTERED: "dead",
    Status.REJECTED: "dead",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
    Status.SKIPPED_IDEMPOTENT: "skipped",
    Status.POSTPONED: "postponed",
}
_ALWAYS_COUNTED = ("done", "retried", "dead")
_FAILURES = (Status.REQUEUED, Status.DEAD_LETTERED, Status.REJECTED)
_COLOURS = {"done": "green", "retried": "yellow", "dead": "red"}
_WORD_WIDTH = max(map(len, _STATUS_WORDS.values()))
_DURATION_WIDTH = len("1.23 ms")


class JobLines:
    """Prints lines for settled jobs with `write`; the settler and the thread that redraws the summary call it."""

    def __init__(self, write: Callable[[str], None], *, colours: bool) -> None:
        self._write = write
        self._colours = colours
        self._lock = threading.Lock()
        self._jobs, self._failures = SecondCount(), SecondCount()
        self._hidden: Counter[str] = Counter()
        self._hidden_failures = 0
        self._redactor = current_redactor()  # the settler's thread has no click context

    @property
    def are_too_many(self) -> bool:
        """Whether jobs are counted now, not shown one by one; until a second with few jobs has passed."""
        return max(self._jobs.count, self._jobs.previous) > JOBS_PER_SECOND

    def add(self, settlements: Sequence[Settlement], now: float) -> None:
        """Show these jobs, or count them."""
        with self._lock:
            self._begin_second(now, len(settlements))
            started = [each for each in settlements if each.reason != UNSTARTED]
            for each in self._count(started) if self.are_too_many else started:
                self._show(each, now)

    def tick(self, now: float) -> None:
        """Say how many jobs were not shown, once they are few again; to be called a few times per second."""
        with self._lock:
            self._begin_second(now, 0)

    def close(self) -> None:
        """Say how many failures were not shown; the worker prints all counts when it stops."""
        with self._lock:
            self._print_hidden_failures()

    def _count(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Count those that succeeded, at 0.03 µs each, and others; returns the failures, which are shown."""
        acked = Status.ACKED
        others = [each for each in settlements if each.status is not acked]
        self._hidden["done"] += len(settlements) - len(others)
        failures = [each for each in others if each.status in _FAILURES]
        self._hidden.update(_word(each.status) for each in others if each.status not in _FAILURES)
        return failures

    def _begin_second(self, now: float, count: int) -> None:
        self._jobs.add(count, now)
        if self._failures.add(0, now):
            self._print_hidden_failures()
        if self._hidden and not self.are_too_many:
            hidden, self._hidden = +self._hidden, Counter()
            if hidden:
                self._print_note(f"… {describe_words(hidden)}")

    def _show(self, job: Settlement, now: float) -> None:
        if job.status in _FAILURES:
            self._failures.add(1, now)
            if self._failures.count > FAILURES_PER_SECOND:
                self._hidden_failures += 1
                return
        clock, width = time.strftime("%H:%M:%S"), shutil.get_terminal_size().columns
        self._write("\n".join(format_job(job, clock, width, self._redactor.text, colours=self._colours)))

    def _print_hidden_failures(self) -> None:
        if self._hidden_failures:
            self._print_note(f"… and {self._hidden_failures} more failures")
            self._hidden_failures = 0

    def _print_note(self, text: str) -> None:
        self._write(click.style(text, dim=True) if self._colours else text)


class SecondCount:
    """Counts within the current second; `previous` is the count of the second just before it."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self.count = self.previous = 0

    def add(self, count: int, now: float) -> bool:
        """True if a new second has begun."""
        passed = now - self._since
        if is_new := passed >= 1:
            self.previous = self.count if passed < 2 else 0
            self.count, self._since = 0, now
        self.count += count
        return is_new


def format_job(job: Settlement, clock: str, width: int, redact: Callable[[str], str], *, colours: bool) -> list[str]:
    """The line of a job, and a second line for a reason or an error that does not fit into the first."""
    word = _word(job.status)
    took = format_seconds(job.run.seconds) if job.run else ""
    what = one_line(job.run.handler) if job.run else f"queue {one_line(job.queue)}"
    line = f"{clock} {word:{_WORD_WIDTH}} {short_id(one_line(job.id))} {took:>{_DURATION_WIDTH}}  {what}"
    why = one_line(redact(_why(job)))
    whole = f"{line}: {why}" if why else line
    lines = [whole] if len(whole) <= width or not why else [line, f"{' ' * (len(clock) + 1)}{why}"]
    cut = [cut_to(each, width) for each in lines]
    return [_coloured(each, word, len(clock)) for each in cut] if colours else cut


def _word(status: Status) -> str:
    return _STATUS_WORDS.get(status, status.value)


def _why(job: Settlement) -> str:
    if job.status is Status.REQUEUED:
        return f"attempt {job.attempt}: {job.error or job.reason or 'failed'}"
    if job.error and job.reason in (None, "retries_exhausted"):  # the usual end: the error says all
        return job.error
    return ": ".join(filter(None, (job.reason, job.error)))


def _coloured(line: str, word: str, clock: int) -> str:
    if word not in _COLOURS:
        return click.style(line, dim=True)
    colour, end = _COLOURS[word], clock + 1 + _WORD_WIDTH
    head = click.style(line[:clock], dim=True) + click.style(line[clock:end], fg=colour)
    return head + line[end:] if line[:clock].strip() else click.style(line, fg=colour)


def describe_counts(tally: Counter[Status]) -> str:
    """As `12 done, 1 retried, 0 dead`."""
    counts: Counter[str] = Counter(dict.fromkeys(_ALWAYS_COUNTED, 0))
    for status, count in list(tally.items()):
        counts[_word(status)] += count
    return describe_words(counts)


def describe_words(counts: Counter[str]) -> str:
    shown = [*_ALWAYS_COUNTED, *sorted(word for word in counts if word not in _ALWAYS_COUNTED)]
    return ", ".join(f"{counts[word]} {word}" for word in shown if word in counts)
