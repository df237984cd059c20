"""`tenure work`: one worker in this process, or several in processes of their own."""

import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import click

from tenure.app import RunnerKind, Tenure
from tenure.cli import processes, progress
from tenure.cli.failures import JOBS_DIED, CommandError
from tenure.cli.loading import app_with_handlers, location
from tenure.cli.signals import StopSignals
from tenure.events import Status
from tenure.worker.worker import Worker

# A child a core, or as many as blocking and awaiting jobs can use before memory and scheduling tell.
DEFAULT_CONCURRENCY: dict[RunnerKind, int] = {
    "inline": 1,
    "process": os.cpu_count() or 1,
    "threads": 16,
    "event_loop": 100,
}


@click.command()
@click.argument("queues", metavar="[QUEUE[:WEIGHT]]...", nargs=-1)
@click.option("--burst", is_flag=True, help="End when nothing is ready or running.")
@click.option("--once", is_flag=True, help="Run at most one job, without waiting for it.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="End after N jobs.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at once; by default what suits.")
@click.option(
    "--runner", type=click.Choice(list(DEFAULT_CONCURRENCY)), default="inline", show_default=True,
    help="Where handlers run.",
)  # fmt: skip
@click.option(
    "--processes", "count", type=click.IntRange(min=1), default=1, show_default=True, help="Workers to start."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
@click.pass_context
def work(
    ctx: click.Context,
    queues: tuple[str, ...],
    burst: bool,
    once: bool,
    most: int | None,
    concurrency: int | None,
    runner: RunnerKind,
    count: int,
    quiet: bool,
) -> None:
    """Run jobs from the queues, or those of the settings, until told to stop.

    Queues are served strictly in order; with weights each draws a share. The first SIGTERM or SIGINT lets the
    running job finish, the second hands it back. With --burst, --once or --max, exit code 1 says that jobs died.
    """
    weights = dict(weighted(queue) for queue in queues)
    if once:
        burst, most = True, 1
    if count > 1:
        ctx.exit(processes.run(_arguments(ctx, queues, burst, most, runner, concurrency, quiet), count))
    with app_with_handlers() as app:
        names = [app.queues.resolve(queue) for queue in weights or app.settings.queues]
        shares = {app.queues.resolve(queue): weight for queue, weight in weights.items() if weight is not None}
        at_once = concurrency or DEFAULT_CONCURRENCY[runner]
        worker = app.worker(
            *names, burst=burst, most=most, weights=shares, runner=runner, concurrency=at_once, location=location()
        )
        tally = _serve(app, worker, names, quiet)
    ctx.exit(JOBS_DIED if progress.died(tally) and (burst or most) else 0)


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


def _arguments(
    ctx: click.Context,
    queues: Sequence[str],
    burst: bool,
    most: int | None,
    runner: str,
    concurrency: int | None,
    quiet: bool,
) -> list[str]:
    """The command line of one of several processes."""
    options = ctx.find_root().params
    return [
        *(["--app", options["app"]] if options["app"] else []),
        *(["--debug"] if options["debug"] else []),
        *(["-v"] * options["verbose"]),
        "work",
        *(["--burst"] if burst else []),
        *(["--max", str(most)] if most else []),
        *(["--quiet"] if quiet else []),
        *("--runner", runner),
        *(["--concurrency", str(concurrency)] if concurrency else []),
        "--",
        *queues,
    ]


def _serve(app: Tenure, worker: Worker, queues: Sequence[str], quiet: bool) -> Counter[Status]:
    """Run the worker to its end, and tell about it."""
    with ExitStack() as stack:
        stack.enter_context(StopSignals(worker, quiet))
        if not quiet:
            shown = stack.enter_context(progress.Progress(app, worker.tally, sys.stdout))
            shown.start(", ".join(queues), os.getpid())
        return worker.run()
