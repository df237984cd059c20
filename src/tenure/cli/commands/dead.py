"""`tenure dead`: list, show, replay, purge and export dead letters: jobs that run again only after a replay.

With `replay --first N` a few jobs run first, as canaries; the rest is replayed only if all of them succeed.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Self

import click
from msgspec import Struct, structs

from tenure.app import Tenure
from tenure.backends.job_filter import DEAD_LETTER_PAGE
from tenure.backends.parts import Jobs
from tenure.backends.records import JobRecord
from tenure.backends.url import without_secrets
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import (
    DeadLetterSelection,
    all_option,
    check_selection,
    dead_letter_options,
    find_job,
    ids_argument,
    parse_seconds,
    select_dead_letters,
)
from tenure.cli.audit import audited, why_option
from tenure.cli.errors import EXIT_JOBS_DIED, CommandError
from tenure.cli.job_ids import resolve_id
from tenure.cli.job_view import dead_letter_row, job_details, last_error, print_job
from tenure.cli.output import LiveLine
from tenure.cli.progress import ProgressBar
from tenure.cli.remote import remote_dashboard
from tenure.cli.tables import Column, print_rows
from tenure.errors import JobNotFound
from tenure.events import END_STATES

_FIRST_POLL_SECONDS, _LAST_POLL_SECONDS = 0.05, 1.0  # short for quick jobs, then longer to spare the backend
_LIST_COLUMNS = (
    Column("id", show=output.short_id),
    Column("queue", rank=2),
    Column("job"),
    Column("died_at", "died", rank=1),
    Column("reason", rank=3),
    Column("error"),
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only print how many there are, and why they died.")


@click.group()
def dead() -> None:
    """List, replay, export and purge dead letters."""


@dead.command("list")
@dead_letter_options
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many.")
@output.json_option
def list_(limit: int, as_json: bool, **filters: Any) -> None:
    """List dead letters, the oldest first."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.list_letters(remote, limit, as_json, filters)
        return
    with any_app() as app:
        letters = list(islice(select_dead_letters(app, **filters).letters(), limit + 1))
    rows = [dead_letter_row(letter) for letter in letters[:limit]]
    if as_json:
        output.print_json(rows)
    elif not rows:
        click.echo("no dead letters")
    else:
        print_rows(_LIST_COLUMNS, rows)
    if len(letters) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


@dead.command()
@click.argument("id")
@output.json_option
def show(id: str, as_json: bool) -> None:
    """Show all that is known about a dead letter."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.show_job(remote, id, as_json)
        return
    with any_app() as app:
        id = resolve_id(app, id)
        letter = next(app.dead_letters().get([id]), None)
        if letter is None:
            state = find_job(app, id).state
            raise JobNotFound(f"job {id!r} is not a dead letter but {state}; `tenure jobs show` shows it")
        details = job_details(letter, app.open_backend().wire)
    print_job(details, as_json)


@dead.command()
@ids_argument
@all_option
@dead_letter_options
@_dry_run_option
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Replay the rest only if the first N succeed.")
@click.option("--wait", metavar="TIME", default="10m", show_default=True, help="How long the first N may take.")
@why_option
@output.json_option
def replay(
    ids: tuple[str, ...],
    select_all: bool,
    dry_run: bool,
    first: int | None,
    wait: str,
    why: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Make dead letters ready again, with fresh counters."""
    check_selection(ids, select_all, **filters)
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote.refuse(first, "--first")
        if dry_run:
            click.echo(remote_jobs.preview_letters(remote, "replay", ids, filters))
        else:
            remote_jobs.replay_letters(remote, ids, filters, why, as_json)
        return
    with any_app() as app:
        selection = select_dead_letters(app, ids, **filters)
        if dry_run:
            _print_dry_run("would_replay", selection, as_json)
            return
        batches = _BatchRun(selection, app.dead_letters().replay, "replayed", hidden=as_json)
        with audited(app, "dead.replay", selection.words(), why) as counts, batches:
            if first is not None:
                batches.run_canaries(first, parse_seconds(wait, "--wait"))
            batches.run_rest()
            counts["replayed"] = batches.count
    batches.report(as_json)


@dead.command()
@ids_argument
@all_option
@dead_letter_options
@_dry_run_option
@click.option("--force", is_flag=True, help="Do not ask.")
@why_option
@output.json_option
def purge(
    ids: tuple[str, ...],
    select_all: bool,
    dry_run: bool,
    force: bool,
    why: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Delete dead letters for good."""
    check_selection(ids, select_all, **filters)
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        question = remote_jobs.preview_letters(remote, "delete", ids, filters)
        if dry_run:
            click.echo(question)
            return
        if not force:
            click.confirm(question, abort=True, err=as_json)
        remote_jobs.delete_letters(remote, ids, filters, why, as_json)
        return
    with any_app() as app:
        selection = select_dead_letters(app, ids, **filters)
        if dry_run:
            _print_dry_run("would_purge", selection, as_json)
            return
        dead_letters = app.dead_letters()
        if not force:
            click.confirm(f"Delete {_describe_total(selection)} for good?", abort=True, err=as_json)
        batches = _BatchRun(selection, dead_letters.discard, "purged", hidden=as_json)
        with audited(app, "dead.delete", selection.words(), why) as counts, batches:
            batches.run_rest()
            counts["deleted"] = batches.count
    batches.report(as_json)


@dead.command()
@ids_argument
@dead_letter_options
def export(ids: tuple[str, ...], **filters: Any) -> None:
    """Print dead letters as lines of JSON, with payload and errors, secrets masked."""
    if (remote := remote_dashboard()) is not None:
        remote.refuse(True, "tenure dead export")
    if ids:
        check_selection(ids, False, **filters)
    with any_app() as app:
        app.dead_letters()
        selection = select_dead_letters(app, ids, **filters)
        wire, missing = app.open_backend().wire, set(selection.ids)
        with ProgressBar("exported", selection.total(), hidden=sys.stdout.isatty()) as bar:
            for count, letter in enumerate(selection.letters(), 1):
                output.print_json_line(job_details(letter, wire))
                missing.discard(letter.id)
                bar.show(count)
    _raise_missing(missing)


class _BatchRun:
    """Applies a function of the backend to the selected dead letters, batch by batch, and shows the progress."""

    def __init__(
        self,
        selection: DeadLetterSelection,
        apply: Callable[[Sequence[str]], list[str]],
        done: str,
        *,
        hidden: bool,
    ) -> None:
        self._selection = selection
        self._function = apply
        self._done = done
        self._left: Iterator[str] = chain.from_iterable(selection.id_batches())
        self._missing = set(selection.ids)
        self._canaries: list[CanaryResult] = []
        self.count = 0
        self._bar = ProgressBar(done, hidden=hidden)
        if self._bar.is_live:
            self._bar.total = selection.total()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.__exit__()

    def run_canaries(self, first: int, timeout: float) -> None:
        """Apply to the first ones and wait for them; unless all succeed in time, drop the rest."""
        jobs = _jobs_of(self._selection.app)
        ids = self._apply(list(islice(self._left, first)))
        self._canaries = wait_for_canaries(jobs, ids, timeout, self._bar.line)
        if not all(canary.succeeded for canary in self._canaries):
            self._left = iter(())

    def run_rest(self) -> None:
        while ids := list(islice(self._left, DEAD_LETTER_PAGE)):
            self._apply(ids)

    def report(self, as_json: bool) -> None:
        """Print the count, the canaries that failed, and the ids that are not dead letters."""
        failed = [canary for canary in self._canaries if not canary.succeeded]
        if as_json:
            first = {"first": list(map(structs.asdict, self._canaries))} if self._canaries else {}
            output.print_json({self._done: self.count, **first, "missing": sorted(self._missing)})
        else:
            click.echo(f"{self._done} {self.count}")
        if failed:
            for canary in failed:
                click.echo(output.format_value(str(canary)), err=True)
            succeeded = len(self._canaries) - len(failed)
            click.echo(f"stopped: {succeeded} of the first {len(self._canaries)} succeeded", err=True)
            click.get_current_context().exit(EXIT_JOBS_DIED)
        _raise_missing(self._missing)

    def _apply(self, ids: list[str]) -> list[str]:
        affected = self._function(ids)
        self.count += len(affected)
        self._missing -= set(affected)
        self._bar.show(self.count)
        return affected


class CanaryResult(Struct, frozen=True):
    """How one job ended that was replayed first."""

    id: str
    state: str
    reason: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.state == "done"

    def __str__(self) -> str:
        why = ": ".join(filter(None, (self.reason, self.error)))
        return f"{self.id} is {self.state}{f' ({why})' if why else ''}"


def wait_for_canaries(jobs: Jobs, ids: Sequence[str], timeout: float, line: LiveLine) -> list[CanaryResult]:
    """The result of each job, once all have ended or the timeout is over."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_POLL_SECONDS
    results: dict[str, CanaryResult] = {}
    while True:
        for id in ids:
            if id not in results or results[id].state not in END_STATES:
                results[id] = _canary_result(id, jobs.find(id))
        running = sum(result.state not in (*END_STATES, "unknown") for result in results.values())
        left = deadline - time.monotonic()
        if not running or left <= 0:
            return list(results.values())
        line.show(f"waiting for {running} of the first {len(ids)} …")
        time.sleep(min(left, pause))
        pause = min(_LAST_POLL_SECONDS, pause * 1.5)


def _canary_result(id: str, record: JobRecord | None) -> CanaryResult:
    if record is None:
        return CanaryResult(id, "unknown", "it was deleted")
    error = last_error(record.failures) if record.state != "done" else None
    return CanaryResult(id, record.state, record.reason, error)


def _jobs_of(app: Tenure) -> Jobs:
    """The jobs of the backend: an archive beside a broker learns of a replayed job only when that has ended."""
    if (jobs := app.backend.jobs) is not None:
        return jobs
    raise CommandError(f"the backend {without_secrets(app.settings.url)!r} cannot show the state of a job")


def _print_dry_run(field: str, selection: DeadLetterSelection, as_json: bool) -> None:
    """Print how many dead letters are selected, and why they died."""
    missing, reasons = set(selection.ids), Counter[str]()
    for letter in selection.letters():
        reasons[letter.reason or "-"] += 1
        missing.discard(letter.id)
    if as_json:
        output.print_json({field: reasons.total(), "reasons": reasons, "missing": sorted(missing)})
    else:
        why = ", ".join(f"{count} {output.format_value(reason)}" for reason, count in reasons.most_common())
        click.echo(f"{field.replace('_', ' ')} {reasons.total()}{f': {why}' if why else ''}")
    _raise_missing(missing)


def _raise_missing(missing: set[str]) -> None:
    if missing:
        raise CommandError(f"not among the dead letters: {', '.join(sorted(missing))}")


def _describe_total(selection: DeadLetterSelection) -> str:
    queue = f" of queue {selection.filter.queue!r}" if selection.filter.queue else ""
    count = selection.total()
    if count is None:
        count = sum(map(len, selection.id_batches()))
    return f"{count} dead letter{'' if count == 1 else 's'}{queue}"
