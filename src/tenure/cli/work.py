"""`tenure work`: one worker in this process, or several in processes of their own."""

import math
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import click
import msgspec

from tenure.app import Tenure
from tenure.app.lanes import find_lanes
from tenure.cli import detaching, exhibits, logs, processes, progress
from tenure.cli.failures import JOBS_DIED, CommandError
from tenure.cli.heart import Heart
from tenure.cli.joining import join
from tenure.cli.loading import app_with_handlers, location
from tenure.cli.logfile import DatedFile
from tenure.cli.options import WorkOptions, command_line
from tenure.cli.pidfile import PidFile
from tenure.cli.signals import Signals
from tenure.cli.titles import set_title
from tenure.cli.watching import watching
from tenure.settings import load
from tenure.worker.lane import RUNNERS, Lane
from tenure.worker.notices import Notifier
from tenure.worker.worker import Worker

_SUPERVISORS = (
    "processes",
    "reload",
    "detach",
    "pid_file",
    "metrics_port",
    "metrics_host",
)  # options that the workers of a supervisor do not get


@click.command()
@click.argument("queues", metavar="[QUEUE[:WEIGHT]]...", nargs=-1)
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve this lane of the settings; repeatable.")
@click.option("--burst", is_flag=True, help="End when nothing is ready or running.")
@click.option("--once", is_flag=True, help="Run at most one job, without waiting for it.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="End after N jobs.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at once; by default what suits.")
@click.option(
    "--runner", type=click.Choice(RUNNERS), help="Where handlers run; by default process: in child processes.",
)  # fmt: skip
@click.option("--with-cron", is_flag=True, help="Keep the schedules too, as tenure cron work does.")
@click.option("--processes", type=click.IntRange(min=1), metavar="N", help="Keep N worker processes running.")
@click.option(
    "--stop-grace", type=click.FloatRange(min=0, max=math.inf, max_open=True), metavar="SECONDS",
    help="How long a running job may take to finish when told to stop.",
)  # fmt: skip
@click.option(
    "--recycle-after", type=click.IntRange(min=1), metavar="N", help="Replace a process when it has run N jobs."
)
@click.option(
    "--max-memory", type=click.FloatRange(min=0, min_open=True), metavar="MB",
    help="Replace a process that holds more than this after a job.",
)  # fmt: skip
@click.option("--reload", is_flag=True, help="For development: start over when Python files here change.")
@click.option("--detach", is_flag=True, help="Work in the background; needs --pid-file.")
@click.option("--pid-file", metavar="FILE", help="Write the process id there while it works.")
@click.option("--log-file", metavar="FILE", help="Log there too; the name may hold the date, as in work-%Y-%m-%d.log.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
    help="Serve a page for Prometheus there; 0 takes any that is free.",
)  # fmt: skip
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where that page is served."
)
@click.option("--metrics-folder", hidden=True)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
@click.pass_context
def work(ctx: click.Context, /, **given: Any) -> None:
    """Run jobs from the queues, or from the lanes or queues of the settings, until told to stop.

    Queues are served strictly in order; with weights each draws a share. The first SIGTERM or SIGINT lets the
    running job finish, the second hands it back. With --burst, --once or --max, exit code 1 says that jobs died.
    """
    options = WorkOptions(**given)
    if options.detach:
        if not options.pid_file:
            raise CommandError("--detach needs --pid-file, or nobody could find the worker to stop it")
        detaching.launch(command_line(ctx, ("detach",)))
        return
    try:
        log = DatedFile(options.log_file) if options.log_file else None
        with PidFile(options.pid_file) if options.pid_file else nullcontext():
            code = _supervise(ctx, options, log) if options.is_supervised else _work(ctx, options, log)
    except Exception as error:
        Notifier(os.environ).tell(STATUS=getattr(error, "message", None) or f"{type(error).__qualname__}: {error}")
        raise
    ctx.exit(code)


def weighted(text: str) -> tuple[str, float | None]:
    """The name and the weight in `emails:3`."""
    name, separator, weight = text.partition(":")
    if not separator:
        return name, None
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise CommandError(f"the weight in {text!r} must be a number above 0, such as {name}:3")
    return name, number


def _supervise(ctx: click.Context, options: WorkOptions, log: DatedFile | None) -> int:
    set_title("tenure: supervisor")
    debug = ctx.find_root().params["debug"]
    settings = load({"log_format": style} if (style := ctx.find_root().params["log_format"]) else {}, os.environ)
    logs.set_up(ctx.find_root().params["verbose"], debug, settings.log_format)
    if log:
        log.attach(settings, debug=debug)
    with ExitStack() as stack:
        more = exhibits.of_supervisor(stack, options)
        stack.enter_context(watching() if options.reload else nullcontext())
        arguments = command_line(ctx, _SUPERVISORS, more)
        silent = log is not None and log.is_stderr
        return processes.run(arguments, options.processes or 1, bounded=options.is_bounded, silent=silent)


def _work(ctx: click.Context, options: WorkOptions, log: DatedFile | None) -> int:
    """One worker; one that ends though nobody told it to is worn or outdated, and starts over."""
    set_title("tenure: worker")
    with app_with_handlers() as app:
        if log:
            log.attach(app.settings, debug=ctx.find_root().params["debug"])
        app.settings = msgspec.structs.replace(app.settings, **options.settings())
        lanes = _lanes(app, options)
        if not options.is_bounded:
            join(app)
        worker = app.worker(
            lanes=lanes,
            burst=options.burst or options.once,
            most=1 if options.once else options.most,
            location=location(),
        )
        if options.with_cron:
            worker.accompany(app.cron.timekeeper())
        signals = _serve(app, worker, lanes, options)
        died = progress.died(worker.tally)
    if not (signals.told or options.is_bounded):
        if log:
            log.let_go()
        processes.start_over(unless=lambda: signals.told)
    return JOBS_DIED if died and options.is_bounded else 0


def _lanes(app: Tenure, options: WorkOptions) -> list[Lane]:
    """The lanes that were asked for: of the settings, or one made of the arguments."""
    shapes = options.runner is not None or options.concurrency is not None
    if options.lanes and (options.queues or shapes):
        raise CommandError("--lane names a lane with its own queues, runner and concurrency: leave those out")
    if app.settings.lanes and not options.queues:
        if shapes:
            raise CommandError(
                "the lanes of the settings have their own runner and concurrency; "
                "name queues to make another lane: tenure work QUEUE --runner ... --concurrency ..."
            )
        return find_lanes(options.lanes or app.settings.lanes, app.settings, app.queues)
    if options.lanes:
        return find_lanes(options.lanes, app.settings, app.queues)
    weights = dict(weighted(queue) for queue in options.queues)
    lane = Lane(
        queues=tuple(weights or app.settings.queues),
        weights={queue: weight for queue, weight in weights.items() if weight is not None},
        runner=options.runner or "process",
        concurrency=options.concurrency or 0,
    )
    return find_lanes([lane], app.settings, app.queues)


def _serve(app: Tenure, worker: Worker, lanes: Sequence[Lane], options: WorkOptions) -> Signals:
    """Run the worker to its end, and tell about it; returns what knows whether it was told to end."""
    notifier = Notifier(os.environ)
    with ExitStack() as stack:
        grace = app.settings.stop_grace
        signals = Signals(worker, grace, notifier, bounded=options.is_bounded, quiet=options.quiet)
        stack.enter_context(signals)
        stack.enter_context(Heart(worker, notifier, grace, lambda: progress.in_words(worker.tally)))
        if not options.quiet:
            shown = stack.enter_context(progress.Progress(app, worker.tally, sys.stdout))
            shown.start(lanes, os.getpid())
        exhibits.of_worker(stack, app, lanes, options)
        worker.run()
    return signals
