"""`tenure work`: one worker in this process, or several worker processes under a supervisor."""

import math
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from tenure.app import Tenure
from tenure.app.workers import find_lanes
from tenure.cli import metrics_server
from tenure.cli.app_loader import app_location, app_with_handlers, wait_for_backend
from tenure.cli.errors import EXIT_JOBS_DIED, CommandError
from tenure.cli.job_lines import describe_counts
from tenure.cli.logs import (
    CONSOLE_VARIABLE,
    LogFileHandler,
    describe_console,
    print_from_signal_handler,
    print_progress,
    set_up_logging,
)
from tenure.cli.process import worker_processes
from tenure.cli.process.pidfile import PidFile
from tenure.cli.process.process_title import set_process_title
from tenure.cli.process.reload import file_watcher
from tenure.cli.process.signals import SignalHandlers
from tenure.cli.process.watchdog import WatchdogReporter
from tenure.cli.work_progress import WorkProgress, count_dead
from tenure.settings import load
from tenure.supervisor.probe_file import StateNotifier
from tenure.supervisor.sd_notify import SystemdNotifier
from tenure.worker.lane import RUNNERS, Lane, RunnerKind
from tenure.worker.worker import Worker

# Options of the supervisor that it does not pass on to its workers.
_SUPERVISOR_OPTIONS = ("processes", "reload", "detach", "pid_file", "metrics_port", "metrics_host")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """The options of the command; None where the settings decide."""

    queues: tuple[str, ...]
    lanes: tuple[str, ...]
    burst: bool
    once: bool
    max_jobs: int | None
    suspects: bool
    runner: RunnerKind | None
    concurrency: int | None
    with_cron: bool
    with_outbox: bool
    processes: int | None
    stop_grace: float | None
    recycle_after: int | None
    max_memory: float | None
    reload: bool
    detach: bool
    pid_file: str | None
    log_file: str | None
    metrics_port: int | None
    metrics_host: str
    metrics_folder: str | None
    shares_terminal: bool
    quiet: bool

    @property
    def is_bounded(self) -> bool:
        """Whether the worker ends by itself; then it is neither restarted nor recycled."""
        return self.burst or self.once or self.max_jobs is not None or self.suspects

    @property
    def is_supervised(self) -> bool:
        return self.processes is not None or self.reload

    def settings(self) -> dict[str, float]:
        """The settings that the user gave as options."""
        names = ("stop_grace", "recycle_after", "max_memory")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@click.command()
@click.argument("queues", metavar="[QUEUE[:WEIGHT]]...", nargs=-1)
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve this lane of the settings; repeatable.")
@click.option("--burst", is_flag=True, help="End when no job is ready or running.")
@click.option("--once", is_flag=True, help="Run one job if one is ready, then end.")
@click.option("--max", "max_jobs", type=click.IntRange(min=1), metavar="N", help="End after N jobs.")
@click.option("--suspects", is_flag=True, help="Run only suspects, one at a time, until none is left.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at once; the default depends on the runner."
)
@click.option(
    "--runner", type=click.Choice(RUNNERS), help="Where handlers run; by default process: in child processes.",
)  # fmt: skip
@click.option("--with-cron", is_flag=True, help="Run the scheduler too, as tenure cron work does.")
@click.option("--with-outbox", is_flag=True, help="Run the relay of the outboxes too, as tenure outbox work does.")
@click.option("--processes", type=click.IntRange(min=1), metavar="N", help="Keep N worker processes running.")
@click.option(
    "--stop-grace", type=click.FloatRange(min=0, max=math.inf, max_open=True), metavar="SECONDS",
    help="How long a running job may take to finish after a signal to stop.",
)  # fmt: skip
@click.option(
    "--recycle-after", type=click.IntRange(min=1), metavar="N", help="Replace a process when it has run N jobs."
)
@click.option(
    "--max-memory", type=click.FloatRange(min=0, min_open=True), metavar="MB",
    help="Replace a process that uses more than this after a job.",
)  # fmt: skip
@click.option("--reload", is_flag=True, help="For development: restart when a Python file in this folder changes.")
@click.option("--detach", is_flag=True, help="Work in the background; needs --pid-file.")
@click.option("--pid-file", metavar="FILE", help="Write the process id to this file while the worker runs.")
@click.option(
    "--log-file", metavar="FILE", help="Log to this file too; its name may contain the date: work-%Y-%m-%d.log."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
    help="Serve a page for Prometheus on this port; 0 takes any free port.",
)  # fmt: skip
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address of that page."
)
@click.option("--metrics-folder", hidden=True)
@click.option("--shares-terminal", is_flag=True, hidden=True)
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.pass_context
def work(ctx: click.Context, /, **given: Any) -> None:
    """Run jobs from these queues, or else from the lanes or queues of the settings, until stopped.

    Queues are served strictly in order; with weights, each queue gets a share. The first SIGTERM or SIGINT lets the
    running job finish, the second hands it back. With --burst, --once, --max or --suspects, exit code 1 means that jobs
    died.
    """
    options = WorkOptions(**given)
    if options.suspects:
        _check_suspects(options)
    if options.detach:
        if not options.pid_file:
            raise CommandError("--detach needs --pid-file, which you need to find and stop the worker")
        worker_processes.start_detached(_command_line(ctx, without=("detach",)))
        return
    try:
        log = LogFileHandler(options.log_file) if options.log_file else None
        with PidFile(options.pid_file) if options.pid_file else nullcontext():
            code = _supervise(ctx, options, log) if options.is_supervised else _run_worker(ctx, options, log)
    except Exception as error:
        SystemdNotifier(os.environ).notify(
            STATUS=getattr(error, "message", None) or f"{type(error).__qualname__}: {error}"
        )
        raise
    ctx.exit(code)


def _supervise(ctx: click.Context, options: WorkOptions, log: LogFileHandler | None) -> int:
    set_process_title("tenure: supervisor")
    debug = ctx.find_root().params["debug"]
    settings = load({"log_format": style} if (style := ctx.find_root().params["log_format"]) else {}, os.environ)
    set_up_logging(ctx.find_root().params["verbose"], debug, settings.log_format)
    if log:
        log.attach(settings, debug=debug)
    with ExitStack() as stack:
        for_workers = ["--shares-terminal"]
        if options.metrics_port is not None:
            server, folder = metrics_server.serve_supervisor_metrics(stack, options.metrics_host, options.metrics_port)
            _print_metrics_url(server, options, settings.log_format)
            for_workers += ["--metrics-folder", str(folder)]
        stack.enter_context(file_watcher() if options.reload else nullcontext())
        arguments = _command_line(ctx, without=_SUPERVISOR_OPTIONS, more=for_workers)
        silent = log is not None and log.is_stderr
        notifier = StateNotifier(os.environ, settings.probe_path)
        return worker_processes.supervise(
            arguments, options.processes or 1, notifier=notifier, bounded=options.is_bounded, silent=silent
        )


def _run_worker(ctx: click.Context, options: WorkOptions, log: LogFileHandler | None) -> int:
    """Run one worker; a worker that ends without a request to stop is recycled or reloaded: restart the process."""
    set_process_title("tenure: worker")
    with app_with_handlers() as app:
        if log:
            log.attach(app.settings, debug=ctx.find_root().params["debug"])
        app.settings = msgspec.structs.replace(app.settings, **options.settings())
        os.environ[CONSOLE_VARIABLE] = describe_console(ctx.find_root().params["verbose"])
        ctx.call_on_close(lambda: os.environ.pop(CONSOLE_VARIABLE, None))
        lanes = _lanes(app, options)
        is_part = options.shares_terminal or options.suspects  # of a supervisor or a worker that writes the probe file
        notifier = StateNotifier(os.environ, None if is_part else app.settings.probe_path)
        if not options.is_bounded:
            wait_for_backend(app, notifier)
        worker = _worker(app, lanes, options)
        if options.with_cron:
            worker.add_role(app.cron.loop())
        if options.with_outbox:
            if options.is_bounded:
                app.outboxes.move()  # otherwise the worker may find nothing to do, and end before the relay begins
            worker.add_role(app.outboxes.relay())
        signals = _run_until_stopped(app, worker, lanes, options, notifier)
        dead = count_dead(worker.tally) or worker.suspects_failed
    if not (signals.stop_requested or options.is_bounded):
        if log:
            log.restore_stderr()
        worker_processes.restart(unless=lambda: signals.stop_requested)
    return EXIT_JOBS_DIED if dead and options.is_bounded else 0


def _worker(app: Tenure, lanes: Sequence[Lane], options: WorkOptions) -> Worker:
    if options.suspects:
        return app.suspects_worker(lanes[0], app_location())
    return app.worker(
        lanes=lanes,
        burst=options.burst or options.once,
        max=1 if options.once else options.max_jobs,
        location=app_location(),
    )


def _run_until_stopped(
    app: Tenure, worker: Worker, lanes: Sequence[Lane], options: WorkOptions, notifier: StateNotifier
) -> SignalHandlers:
    """Run the worker to its end, with progress and metrics; the result knows whether a signal stopped it."""
    with ExitStack() as stack:
        grace, style = app.settings.stop_grace, app.settings.log_format
        print_line = None if options.quiet else partial(print_from_signal_handler, style=style)
        signals = SignalHandlers(worker, grace, notifier, bounded=options.is_bounded, print_line=print_line)
        stack.enter_context(signals)
        stack.enter_context(WatchdogReporter(worker, notifier, grace, lambda: describe_counts(worker.tally)))
        if not options.quiet:
            progress = WorkProgress(app, worker, sys.stdout, is_shared=options.shares_terminal)
            stack.enter_context(progress)
            progress.print_start(lanes, os.getpid())
        _serve_metrics(stack, app, worker, lanes, options)
        worker.run()
    return signals


def _serve_metrics(stack: ExitStack, app: Tenure, worker: Worker, lanes: Sequence[Lane], options: WorkOptions) -> None:
    """Answer the supervisor, or serve the page of this worker, if the options ask for it."""
    queues = [queue for lane in lanes for queue in lane.queues]
    if options.metrics_folder is not None:
        metrics_server.answer_supervisor(stack, app, queues, Path(options.metrics_folder), worker)
    elif options.metrics_port is not None:
        host, port = options.metrics_host, options.metrics_port
        server = metrics_server.serve_worker_metrics(stack, app, queues, host, port, worker)
        _print_metrics_url(server, options, app.settings.log_format)


def _print_metrics_url(server: metrics_server.MetricsServer, options: WorkOptions, style: str) -> None:
    if not options.quiet:
        print_progress(f"Metrics at {server.url}", style)


def _check_suspects(options: WorkOptions) -> None:
    """Refuse options that contradict --suspects."""
    others = {
        "--burst": options.burst,
        "--once": options.once,
        "--max": options.max_jobs is not None,
        "--concurrency": options.concurrency is not None,
        "--processes": options.processes is not None,
        "--reload": options.reload,
        "--with-cron": options.with_cron,
        "--with-outbox": options.with_outbox,
    }
    if given := [name for name, is_given in others.items() if is_given]:
        raise CommandError(f"--suspects runs one job at a time until no suspect is left: omit {', '.join(given)}")


def _lanes(app: Tenure, options: WorkOptions) -> list[Lane]:
    lanes = _lanes_as_given(app, options)
    if not options.suspects:
        return lanes
    runner = lanes[0].runner
    if any(lane.runner != runner for lane in lanes):
        raise CommandError("the lanes have different runners; name one of them: tenure work --suspects --lane NAME")
    return [Lane(queues=tuple(queue for lane in lanes for queue in lane.queues), runner=runner)]


def _lanes_as_given(app: Tenure, options: WorkOptions) -> list[Lane]:
    """The lanes of the settings that the user named, or one lane made from the arguments."""
    shapes_lane = options.runner is not None or options.concurrency is not None
    if options.lanes and (options.queues or shapes_lane):
        raise CommandError("--lane names a lane with its own queues, runner and concurrency: omit them here")
    if app.settings.lanes and not options.queues:
        if shapes_lane:
            raise CommandError(
                "the lanes of the settings have their own runner and concurrency; "
                "name queues to make another lane: tenure work QUEUE --runner ... --concurrency ..."
            )
        return find_lanes(options.lanes or app.settings.lanes, app.settings, app.queues)
    if options.lanes:
        return find_lanes(options.lanes, app.settings, app.queues)
    weights = dict(_parse_queue(app, text) for text in options.queues)
    lane = Lane(
        queues=tuple(weights or app.settings.queues),
        weights={queue: weight for queue, weight in weights.items() if weight is not None},
        runner=options.runner or "process",
        concurrency=options.concurrency or 0,
    )
    return find_lanes([lane], app.settings, app.queues)


def _parse_queue(app: Tenure, text: str) -> tuple[str, float | None]:
    """The name and the weight in `emails:3`; the path of a class may contain a colon too."""
    name, separator, weight = text.rpartition(":")
    if not separator or app.queues.find(text):
        return text, None
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise CommandError(f"the weight in {text!r} must be a number above 0, such as {name}:3")
    return name, number


def _command_line(ctx: click.Context, *, without: Collection[str], more: Sequence[str] = ()) -> list[str]:
    """The arguments of this command for another process, without some options and with others."""
    options = [*_given_options(ctx.find_root(), ()), "work", *_given_options(ctx, without), *more]
    return [*options, "--", *ctx.params["queues"]]


def _given_options(ctx: click.Context, without: Collection[str]) -> Iterator[str]:
    for option in ctx.command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name in without or name not in ctx.params:
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            flag, value = option.opts[-1], ctx.params[name]
            if option.multiple:
                yield from (each for part in value for each in (flag, str(part)))
            else:
                yield from [flag] * int(value) if option.is_flag or option.count else [flag, str(value)]
