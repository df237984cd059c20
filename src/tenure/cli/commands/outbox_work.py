"""`tenure outbox work`: run the relay that moves jobs from the outboxes to their backends."""

import logging
import os
from contextlib import ExitStack, nullcontext
from functools import partial

import click

from tenure.app import Tenure
from tenure.app.outbox.outboxes import Outboxes
from tenure.app.outbox.relay import Moved
from tenure.cli import metrics_server
from tenure.cli.app_loader import any_app
from tenure.cli.logs import LogFileHandler, print_from_signal_handler, print_progress
from tenure.cli.process import worker_processes
from tenure.cli.process.pidfile import PidFile
from tenure.cli.process.process_title import set_process_title
from tenure.cli.process.signals import SchedulerService, SignalHandlers
from tenure.cli.process.watchdog import WatchdogReporter
from tenure.supervisor.probe_file import StateNotifier

logger = logging.getLogger(__name__)


@click.command()
@click.option("--burst", is_flag=True, help="Move the jobs that are there now, then end.")
@click.option(
    "--database", "databases", multiple=True, metavar="URL",
    help="A database with an outbox, instead of those of the setting outboxes; repeatable.",
)  # fmt: skip
@click.option("--pid-file", metavar="FILE", help="Write the process id to this file while the relay runs.")
@click.option(
    "--log-file", metavar="FILE", help="Log to this file too; its name may contain the date: outbox-%Y-%m-%d.log."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
    help="Serve a page for Prometheus on this port; 0 takes any free port.",
)  # fmt: skip
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address of that page."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.pass_context
def work(
    ctx: click.Context, burst: bool, databases: tuple[str, ...], pid_file: str | None, log_file: str | None,
    metrics_port: int | None, metrics_host: str, quiet: bool,
) -> None:  # fmt: skip
    """Move jobs from the outboxes to their backends until stopped. Any number may run at once."""
    set_process_title("tenure: outbox relay")
    log = LogFileHandler(log_file) if log_file else None
    with ExitStack() as stack:
        stack.enter_context(PidFile(pid_file) if pid_file else nullcontext())
        app = stack.enter_context(any_app(create=True))
        if log:
            log.attach(app.settings, debug=ctx.find_root().params["debug"])
        outboxes = app.outboxes.on(*databases) if databases else app.outboxes
        if burst:
            moved = outboxes.move()
            if not quiet:
                click.echo(f"Moved: {_described(moved)}.")
            return
        if metrics_port is not None:
            server = metrics_server.serve_worker_metrics(stack, app, (), metrics_host, metrics_port)
            if not quiet:
                print_progress(f"Metrics at {server.url}", app.settings.log_format)
        signals = _run_relay(app, outboxes, quiet=quiet)
    if not signals.stop_requested:
        if log:
            log.restore_stderr()
        worker_processes.restart(unless=lambda: signals.stop_requested)


def _run_relay(app: Tenure, outboxes: Outboxes, *, quiet: bool) -> SignalHandlers:
    """Run the relay to its end; the result knows whether a signal stopped it."""
    relay, grace, style = outboxes.relay(), app.settings.stop_grace, app.settings.log_format
    service, notifier = SchedulerService(relay, grace), StateNotifier(os.environ, app.settings.probe_path)
    with ExitStack() as stack:
        print_line = None if quiet else partial(print_from_signal_handler, style=style)
        signals = stack.enter_context(SignalHandlers(service, grace, notifier, bounded=False, print_line=print_line))
        stack.enter_context(WatchdogReporter(service, notifier, grace, lambda: _described(relay.moved)))
        if not quiet:
            print_progress(f"Moving jobs from {', '.join(relay.names)}; process {os.getpid()}.", style)
        service.run()
        if not quiet:
            print_progress(f"Moved: {_described(relay.moved)}.", style)
    return signals


def _described(moved: Moved) -> str:
    parts = [f"{moved.relayed} jobs"]
    parts += [f"{moved.dropped} dropped as duplicates"] if moved.dropped else []
    parts += [f"{moved.refused} refused"] if moved.refused else []
    return ", ".join(parts)
