"""`tenure cron run` and `tenure cron work`: doing what is due, once a minute by system cron or all the time."""

import math
import os
from contextlib import ExitStack, nullcontext
from queue import SimpleQueue
from typing import Any, Literal

import click

from tenure.app import Tenure
from tenure.app.keeping import Ran
from tenure.cli import printing, processes
from tenure.cli.cron_times import at_time, moment_of
from tenure.cli.failures import JOBS_DIED
from tenure.cli.heart import Heart
from tenure.cli.joining import join
from tenure.cli.loading import app_with_handlers
from tenure.cli.logfile import DatedFile
from tenure.cli.pidfile import PidFile
from tenure.cli.signals import Signals
from tenure.cli.titles import set_title
from tenure.clock import to_datetime
from tenure.cron.plan import Step, plan
from tenure.cron.timekeeper import Timekeeper
from tenure.worker.notices import Notifier
from tenure.worker.roles import RoleThread


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this schedule, whenever it is due; repeatable.")
@at_time
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run(ctx: click.Context, dry_run: bool, only: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Do what is due in this minute, in the order of dependencies; for system cron, once a minute.

    Jobs go to their queues, inline ones run here. What somebody did already is not done again, and one that fails
    does not stop the others; exit code 1 says that some did.
    """
    with app_with_handlers() as app:
        if dry_run:
            _tell_plan(plan(app.schedules.all(), moment_of(app, at), app.settings.environment, only), as_json)
            return
        ran = app.cron.run(None if at is None else moment_of(app, at), only)
    _tell_ran(ran, as_json)
    if any(each.is_new and each.record.state == "failed" for each in ran):
        ctx.exit(JOBS_DIED)


@click.command()
@click.option(
    "--stop-grace", type=click.FloatRange(min=0, max=math.inf, max_open=True), metavar="SECONDS",
    help="How long what runs inline may take to finish when told to stop.",
)  # fmt: skip
@click.option("--pid-file", metavar="FILE", help="Write the process id there while it works.")
@click.option("--log-file", metavar="FILE", help="Log there too; the name may hold the date, as in cron-%Y-%m-%d.log.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
@click.pass_context
def work(ctx: click.Context, stop_grace: float | None, pid_file: str | None, log_file: str | None, quiet: bool) -> None:
    """Keep the schedules until told to stop; any number may do so, and each tick is enqueued once.

    Signals mean what they mean to tenure work.
    """
    set_title("tenure: scheduler")
    log = DatedFile(log_file) if log_file else None
    with PidFile(pid_file) if pid_file else nullcontext(), app_with_handlers() as app:
        if log:
            log.attach(app.settings, debug=ctx.find_root().params["debug"])
        join(app)
        signals = _keep(app, app.settings.stop_grace if stop_grace is None else stop_grace, quiet=quiet)
    if not signals.told:
        if log:
            log.let_go()
        processes.start_over(unless=lambda: signals.told)


class Keeping:
    """A timekeeper in a thread of its own, while the main thread waits for what signals say."""

    def __init__(self, keeper: Timekeeper, grace: float) -> None:
        self._keeper = keeper
        self._grace = grace
        self._words: SimpleQueue[Literal["stop", "now", "ended"]] = SimpleQueue()  # safe in signal handlers
        self._death: BaseException | None = None
        self.ready, self.silence = keeper.ready, keeper.silence

    def run(self) -> None:
        RoleThread(self._keeper, self._die, on_end=lambda: self._words.put("ended")).start()
        for word in iter(self._words.get, "ended"):
            self._keeper.stop(self._grace if word == "stop" else 0.0)
        if self._death is not None:
            raise self._death

    def stop(self) -> None:
        self._words.put("stop")

    def stop_now(self) -> None:
        self._words.put("now")

    def drain(self) -> None:
        self.stop()

    def reload(self) -> bool:
        return False

    def _die(self, error: BaseException) -> None:
        self._death = error


def _keep(app: Tenure, grace: float, *, quiet: bool) -> Signals:
    keeping, notifier = Keeping(app.cron.timekeeper(), grace), Notifier(os.environ)
    count = len(app.schedules.all())
    words = f"keeping {count} schedule{'' if count == 1 else 's'}"
    with ExitStack() as stack:
        signals = stack.enter_context(Signals(keeping, grace, notifier, bounded=False, quiet=quiet))
        stack.enter_context(Heart(keeping, notifier, grace, lambda: words))
        if not quiet:
            click.echo(f"{words[0].upper()}{words[1:]}; process {os.getpid()}.")
        keeping.run()
    return signals


def _tell_plan(steps: list[Step], as_json: bool) -> None:
    if as_json:
        printing.as_json([_step(step) for step in steps])
    elif steps:
        rows = [[step.schedule.name, step.action, _place(step), step.why] for step in steps]
        printing.table(("name", "would", "queue", "why"), rows)
    else:
        click.echo("nothing is due")


def _tell_ran(ran: list[Ran], as_json: bool) -> None:
    found = [_ran(each) for each in ran]
    columns = ("name", "state", "queue", "job", "why")
    if as_json:
        printing.as_json(found)
    elif found:
        printing.table(columns, [[each[column] for column in columns] for each in found])
    else:
        click.echo("nothing is due")


def _step(step: Step) -> dict[str, Any]:
    tick = to_datetime(step.tick)
    return {"name": step.schedule.name, "tick": tick, "would": step.action, "queue": _place(step), "why": step.why}


def _place(step: Step) -> str | None:
    return step.schedule.job.queue if step.action == "enqueue" else None


def _ran(each: Ran) -> dict[str, Any]:
    return {
        "name": each.schedule.name,
        "tick": printing.moment(each.record.tick),
        "state": each.record.state,
        "new": each.is_new,
        "queue": None if each.schedule.inline else each.schedule.job.queue,
        "job": each.record.id,
        "why": each.record.why if each.is_new else "was entered before",
    }
