"""What `tenure work` prints while it runs: on a terminal its jobs, elsewhere one line per retried job.

With JSON logs these messages are log records, and nothing is printed.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Self, TextIO

from tenure.app import Tenure
from tenure.backends.url import shown_url
from tenure.cli.job_lines import JobLines, describe_counts
from tenure.cli.logs import hide_outcomes, progress_log
from tenure.cli.output import ERASE_LINE, LiveLine, format_lane, uses_colours
from tenure.events import Event, Settled, Status
from tenure.redaction import printable
from tenure.worker.lane import Lane
from tenure.worker.worker import Worker

_REDRAW_INTERVAL = 0.2
_SHARED_SUMMARY_INTERVAL = 5.0
_RATE_WINDOW = 5.0  # seconds


class WorkProgress:
    """Shows what a worker does; the stream is the real stdout, taken before handlers' prints are caught.

    `is_shared`: other workers write to the same terminal, so a line that is overwritten in place would be lost.
    """

    def __init__(self, app: Tenure, worker: Worker, stream: TextIO, *, is_shared: bool) -> None:
        self._app = app
        self._worker = worker
        self._stream = stream
        self._is_json = app.settings.log_format == "json"
        self._jobs: TerminalJobs | None = None
        if stream.isatty() and not self._is_json:
            self._jobs = TerminalJobs(worker.tally, stream, is_shared=is_shared)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self._jobs:
            hide_outcomes()
            self._jobs.start()
        self._app.listen(self._on_event)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._jobs:
            self._jobs.stop()
        self._print(f"Stopped after {time.monotonic() - self._started:.1f} s: {describe_counts(self._worker.tally)}")

    def print_start(self, lanes: Sequence[Lane], pid: int) -> None:
        """Say what the worker serves and its id; on a terminal also how to stop it."""
        served = f"Working on {'; '.join(map(format_lane, lanes))} at {shown_url(self._app.settings.url)}"
        if self._jobs and not self._jobs.is_shared:
            self._print(served)
            self._print(f"Worker {self._worker.name}; Ctrl-C stops it when its running jobs have ended")
        else:
            self._print(f"{served}, worker {self._worker.name}, pid {pid}")

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, Settled):
            return
        if self._jobs:
            self._jobs.lines.add(event.settlements, time.monotonic())
        for each in event.settlements:
            if each.status is Status.REQUEUED:
                text = f"retried {each.id} on queue {each.queue}: attempt {each.attempt} {each.reason}"
                ids = {"job": each.id, "queue": each.queue, "attempt": each.attempt, "reason": each.reason}
                self._print(text, log_only=self._jobs is not None, **ids)

    def _print(self, text: str, *, log_only: bool = False, **ids: object) -> None:
        progress_log.info("%s", text, extra=ids)
        if not (log_only or self._is_json):
            self._stream.write(f"{printable(text)}\n")
            self._stream.flush()


class TerminalJobs:
    """The jobs of a worker on a terminal: lines, and a summary while there are too many jobs for lines.

    The summary is overwritten in place. On a shared or dumb terminal it is printed every few seconds.
    """

    def __init__(self, tally: Counter[Status], stream: TextIO, *, is_shared: bool) -> None:
        self._tally = tally
        self._stream = stream
        self._summary = LiveLine(stream)
        self._is_live = self._summary.is_live and not is_shared
        self._rate = _JobRate()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-progress", daemon=True)
        self._shown_at: float | None = None
        self.is_shared = is_shared
        self.lines = JobLines(self._write, colours=uses_colours(stream))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self.lines.close()

    def redraw(self, now: float) -> None:
        """Show the summary, or remove it once jobs are few again."""
        rate = self._rate.per_second(now, self._tally.total() - self._tally[Status.POSTPONED])
        self.lines.tick(now)
        if self.lines.are_too_many:
            self._show(f"{describe_counts(self._tally)}, {rate:.0f}/s", now)
        else:
            self._clear()

    def _run(self) -> None:
        while not self._ended.wait(_REDRAW_INTERVAL):
            self.redraw(time.monotonic())
        self._clear()

    def _clear(self) -> None:
        if self._is_live and self._shown_at is not None:
            self._summary.clear()
        self._shown_at = None

    def _show(self, text: str, now: float) -> None:
        if self._is_live:
            self._shown_at = now
            self._summary.show(text)
        elif self._shown_at is None or now - self._shown_at >= _SHARED_SUMMARY_INTERVAL:
            self._shown_at = now
            self._write(text)

    def _write(self, line: str) -> None:
        self._stream.write(f"{ERASE_LINE if self._is_live else ''}{line}\n")
        self._stream.flush()


def count_dead(tally: Counter[Status]) -> int:
    return tally[Status.DEAD_LETTERED] + tally[Status.REJECTED]


class _JobRate:
    """Jobs per second over the last few seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def per_second(self, now: float, count: int) -> float:
        self._samples.append((now, count))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW:
            self._samples.popleft()
        (since, before) = self._samples[0]
        return (count - before) / (now - since) if now > since else 0.0
