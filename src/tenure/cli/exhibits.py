"""What `tenure work` shows to those who measure it: the page of one worker, or one page of all under a supervisor."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import click

from tenure.app import Tenure
from tenure.app.readings import Readings
from tenure.cli.gathering import Gathering, Teller, folder
from tenure.cli.metrics_page import MetricsPage
from tenure.cli.options import WorkOptions
from tenure.worker.lane import Lane


def of_supervisor(stack: ExitStack, options: WorkOptions) -> list[str]:
    """Serve the page of all workers, if it is wanted; returns the options that have them tell what they count."""
    if options.metrics_port is None:
        return []
    place = stack.enter_context(folder())
    page = MetricsPage(options.metrics_host, options.metrics_port, Gathering(place).snapshot)
    _show(stack.enter_context(page), options)
    return ["--metrics-folder", str(place)]


def of_worker(stack: ExitStack, app: Tenure, lanes: Iterable[Lane], options: WorkOptions) -> None:
    """Serve the page of this worker, or tell its supervisor, if either is wanted."""
    queues = [queue for lane in lanes for queue in lane.queues]
    if options.metrics_folder is not None:
        readings = Readings(app, queues)
        stack.enter_context(Teller(Path(options.metrics_folder), lambda queues: readings.snapshot(queues=queues)))
    elif options.metrics_port is not None:
        page = MetricsPage(options.metrics_host, options.metrics_port, Readings(app, queues).snapshot)
        _show(stack.enter_context(page), options)


def _show(page: MetricsPage, options: WorkOptions) -> None:
    if not options.quiet:
        click.echo(f"Metrics at {page.url}")
