"""`tenure cron run` and `tenure cron work`: run due ticks once (from system cron), or all the time as a scheduler."""

import logging
import math
import os
from collections import Counter
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import click

from tenure.app import Tenure
from tenure.app.cron import TickResult
from tenure.backends.ledger import Ledger
from tenure.backends.url import sqlite_file
from tenure.cli import output
from tenure.cli.app_loader import app_with_handlers, wait_for_backend
from tenure.cli.arguments import at_option, parse_time
from tenure.cli.audit import audited
from tenure.cli.errors import EXIT_JOBS_DIED
from tenure.cli.logs import LogFileHandler, print_from_signal_handler, print_progress
from tenure.cli.process import worker_processes
from tenure.cli.process.pidfile import PidFile
from tenure.cli.process.process_title import set_process_title
from tenure.cli.process.signals import SchedulerService, SignalHandlers
from tenure.cli.process.watchdog import WatchdogReporter
from tenure.cli.remote import remote_dashboard
from tenure.cli.tables import Column, print_rows, print_table
from tenure.clock import to_datetime
from tenure.cron.decision import PlannedTick, plan
from tenure.errors import TenureError
from tenure.supervisor.probe_file import StateNotifier

logger = logging.getLogger(__name__)


@click.command()
@click.option(
    "--dry-run/--no-dry-run", default=None, help="Only print what would be done; this is the default with --at."
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this schedule, even if it is not due; repeatable.")
@at_option
@output.json_option
@click.pass_context
def run(ctx: click.Context, dry_run: bool | None, only: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Run what is due in this minute, in the order of dependencies. For system cron, once a minute.

    Jobs go to their queues; inline jobs run here. A tick that was handled before is not handled again, and a job that
    fails does not stop the others; exit code 1 means that a job failed.
    """
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_cron  # only remote commands need it

        remote.refuse(dry_run or at, "--dry-run and --at")
        remote_cron.run_schedules(remote, only, as_json)
        return
    with app_with_handlers() as app:
        if dry_run or (dry_run is None and at is not None):
            ledger, moment = existing_ledger(app), parse_time(app, at)
            paused = ledger.paused() if ledger else ()
            _print_plan(plan(app.schedules.all(), moment, app.settings.environment, only, paused), as_json)
            if dry_run is None:
                click.echo("Nothing was run: --at only shows the plan. Add --no-dry-run to run these ticks.", err=True)
            return
        with audited(app, "schedule.run", only) if only else nullcontext(Counter[str]()) as counts:
            ran = app.cron.run(None if at is None else to_datetime(parse_time(app, at)), only)
            counts.update(each.record.state for each in ran if each.is_new)
    _print_ran(ran, as_json)
    if any(each.is_new and each.record.state == "failed" for each in ran):
        ctx.exit(EXIT_JOBS_DIED)


@click.command()
@click.option(
    "--stop-grace", type=click.FloatRange(min=0, max=math.inf, max_open=True), metavar="SECONDS",
    help="How long inline jobs may take to finish after a signal to stop.",
)  # fmt: skip
@click.option("--pid-file", metavar="FILE", help="Write the process id to this file while the scheduler runs.")
@click.option(
    "--log-file", metavar="FILE", help="Log to this file too; its name may contain the date: cron-%Y-%m-%d.log."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.pass_context
def work(ctx: click.Context, stop_grace: float | None, pid_file: str | None, log_file: str | None, quiet: bool) -> None:
    """Run the scheduler until stopped. Any number may run at once; each tick is enqueued once.

    Signals have the same effect as on tenure work.
    """
    if (remote := remote_dashboard()) is not None:
        remote.refuse(True, "tenure cron work")
    set_process_title("tenure: scheduler")
    log = LogFileHandler(log_file) if log_file else None
    with PidFile(pid_file) if pid_file else nullcontext(), app_with_handlers() as app:
        if log:
            log.attach(app.settings, debug=ctx.find_root().params["debug"])
        notifier = StateNotifier(os.environ, app.settings.probe_path)
        wait_for_backend(app, notifier)
        grace = app.settings.stop_grace if stop_grace is None else stop_grace
        signals = _run_scheduler(app, grace, notifier, quiet=quiet)
    if not signals.stop_requested:
        if log:
            log.restore_stderr()
        worker_processes.restart(unless=lambda: signals.stop_requested)


def _run_scheduler(app: Tenure, grace: float, notifier: StateNotifier, *, quiet: bool) -> SignalHandlers:
    """Run the scheduler to its end; the result knows whether a signal stopped it."""
    service = SchedulerService(app.cron.loop(), grace)
    count = len(app.schedules.all())
    words = f"running {count} schedule{'' if count == 1 else 's'}"
    with ExitStack() as stack:
        print_line = None if quiet else partial(print_from_signal_handler, style=app.settings.log_format)
        signals = stack.enter_context(SignalHandlers(service, grace, notifier, bounded=False, print_line=print_line))
        stack.enter_context(WatchdogReporter(service, notifier, grace, lambda: words))
        if not quiet:
            print_progress(f"{words[0].upper()}{words[1:]}; process {os.getpid()}.", app.settings.log_format)
        service.run()
    return signals


def existing_ledger(app: Tenure) -> Ledger | None:
    """The ledger if it exists: commands that only show something create no database, and work without a server."""
    parts = urlsplit(app.settings.url)
    if parts.scheme == "sqlite" and not sqlite_file(parts).exists():
        return None
    try:
        return app.cron.ledger
    except TenureError as error:
        logger.warning("past ticks and pauses are not shown: %s", error)
        return None


def _print_plan(steps: list[PlannedTick], as_json: bool) -> None:
    if as_json:
        output.print_json([_step_fields(step) for step in steps])
    elif steps:
        rows = [[step.schedule.name, step.action, _target_queue(step), step.why] for step in steps]
        print_table(("name", "would", "queue", "why"), rows)
    else:
        click.echo("nothing is due")


def _print_ran(ran: list[TickResult], as_json: bool) -> None:
    found = [_ran_fields(each) for each in ran]
    columns = ("name", "state", "queue", Column("job", show=output.short_id), "why")
    if as_json:
        output.print_json(found)
    elif found:
        print_rows(columns, found)
    else:
        click.echo("nothing is due")


def _step_fields(step: PlannedTick) -> dict[str, Any]:
    tick, queue = to_datetime(step.tick), _target_queue(step)
    return {"name": step.schedule.name, "tick": tick, "would": step.action, "queue": queue, "why": step.why}


def _target_queue(step: PlannedTick) -> str | None:
    return step.schedule.job.queue if step.action == "enqueue" else None


def _ran_fields(each: TickResult) -> dict[str, Any]:
    return {
        "name": each.schedule.name,
        "tick": output.as_datetime(each.record.tick),
        "state": each.record.state,
        "new": each.is_new,
        "queue": None if each.schedule.inline else each.schedule.job.queue,
        "job": each.record.id,
        "why": each.record.why if each.is_new else "was entered before",
    }
