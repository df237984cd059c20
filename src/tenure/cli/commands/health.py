"""`tenure health`: jobs per queue and state, statistics of the last hours, facts about the server; and the probe.

A container's probe starts this command every few seconds, so that only the rest of it imports the app: 0.1 s instead of
0.2 s of processor time.
"""

import os
import time
from pathlib import Path

import click
import msgspec

from tenure.cli import output
from tenure.cli.errors import CommandError
from tenure.settings import load
from tenure.supervisor.probe_file import Level, find_fault

EXIT_FAILED_PROBE = 1


@click.command()
@click.option("--last", metavar="TIME", default="24h", show_default=True, help="How far back the statistics go.")
@click.option("--all", "with_ended", is_flag=True, help="Count ended jobs too; slow if there are many.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable.")
@click.option(
    "--probe", type=click.Choice(["live", "ready"]), is_flag=False, flag_value="live",
    help="Only check whether the worker or scheduler of this container is alive, or ready.",
)  # fmt: skip
@output.json_option
@click.pass_context
def health(
    ctx: click.Context, last: str, with_ended: bool, queues: tuple[str, ...], probe: Level | None, as_json: bool
) -> None:
    """Count jobs per queue and state, and show statistics of the last day and facts about the server.

    With --probe, exit code 1 means that the process which writes the file of the setting probe_path is not alive, or
    not ready. It does not ask the backend: an outage there is no reason to restart workers.
    """
    if probe is not None:
        _probe(ctx, probe)
    else:
        _report(last, with_ended, queues, as_json)


def _probe(ctx: click.Context, level: Level) -> None:
    path = load(environment=os.environ).probe_path
    if path is None:
        raise CommandError("--probe needs the setting 'probe_path', such as TENURE_PROBE_PATH=/tmp/tenure-probe")
    if fault := find_fault(Path(path), level, time.monotonic()):
        click.echo(fault, err=True)
        ctx.exit(EXIT_FAILED_PROBE)


def _report(last: str, with_ended: bool, queues: tuple[str, ...], as_json: bool) -> None:
    from tenure.app.dashboard.health import HealthQuery, read_health
    from tenure.cli.app_loader import any_app
    from tenure.cli.health_report import print_health
    from tenure.cli.queue_names import find_queue
    from tenure.cli.remote import remote_dashboard

    if (remote := remote_dashboard()) is not None:
        found = remote.read(HealthQuery(last=last, ended=with_ended, queues=queues))
    else:
        with any_app() as app:
            found = read_health(app, last, with_ended, [find_queue(app, queue) for queue in queues])
    if as_json:
        output.print_json(msgspec.to_builtins(found))
    else:
        print_health(found)
