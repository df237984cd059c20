"""`tenure workers`: the workers that are alive and their jobs; drain one and resume it."""

import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from tenure.app import Tenure
from tenure.backends.contract import required
from tenure.backends.records import RunningJob, WorkerRecord
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.arguments import parse_seconds
from tenure.cli.audit import audited
from tenure.cli.errors import CommandError
from tenure.cli.job_lines import describe_counts
from tenure.cli.output import LiveLine
from tenure.cli.remote import remote_dashboard
from tenure.cli.tables import Column, print_table
from tenure.errors import SettingsError
from tenure.events import Status
from tenure.guards.states import Paused


def _describe_counts(counts: Mapping[str, int]) -> str:
    return describe_counts(Counter({Status(status): count for status, count in counts.items()}))


_COLUMNS = (
    "id",
    "lanes",
    Column("started_at", "started", rank=2),
    Column("seen_at", "seen", rank=3),
    Column("running", rank=1),
    Column("counts", "jobs", show=_describe_counts),
    Column("memory", rank=5, show=output.format_megabytes),
    Column("draining_since", "draining since", rank=1),
    Column("draining_reason", "reason", rank=4),
)
_POLL_SECONDS = 1.0


class WorkersBusy(CommandError):
    """Workers still ran jobs when the time of --wait was over."""

    exit_code = 1


@click.group(invoke_without_command=True)
@output.json_option
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """List the workers that are alive; drain one of them and resume it."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)
        return
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote_jobs.list_workers(remote, as_json)
        return
    with any_app() as app:
        found = required(app.parts().workers, "registry of workers").alive()
        drains = _drains(app, found)
    if as_json:
        output.print_json([_fields(worker, drains.get(worker.id)) for worker in found])
    elif found:
        print_table(_COLUMNS, [_row(worker, drains.get(worker.id)) for worker in found])
    else:
        click.echo("no worker is alive")


@workers.command()
@click.argument("workers", metavar="[ID]...", nargs=-1)
@click.option("--this-host", is_flag=True, help="The workers of this host, which in a container are its own.")
@click.option("--wait", metavar="TIME", help="Wait this long, such as 10m, until they run no jobs.")
@click.option("--reason", metavar="TEXT", help="The reason that `tenure workers` shows.")
@output.json_option
def drain(workers: tuple[str, ...], this_host: bool, wait: str | None, reason: str | None, as_json: bool) -> None:
    """Stop these workers from leasing jobs until they are resumed. Running jobs continue, and no process ends.

    With --wait, exit code 1 means that jobs still ran at the end of that time.
    """
    if bool(workers) == this_host:
        raise click.UsageError("give the ids of workers, or --this-host")
    limit = None if wait is None else parse_seconds(wait, "--wait")
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        remote.refuse(this_host or wait, "--this-host and --wait")
        changed = {worker: remote_jobs.drain_worker(remote, worker, reason) for worker in workers}
    else:
        with any_app() as app:
            workers = workers or _workers_of_host(app)
            changed = _drain(app, workers, reason)
            if limit is not None:
                _wait_until_idle(app, workers, limit)
    if this_host and not workers and not as_json:
        click.echo("no worker of this host is alive")
    _print_changes(changed, as_json, "drained", "leases no more jobs", "was draining before")


@workers.command()
@click.argument("workers", metavar="ID...", nargs=-1, required=True)
@output.json_option
def resume(workers: tuple[str, ...], as_json: bool) -> None:
    """Let draining workers lease jobs again."""
    if (remote := remote_dashboard()) is not None:
        from tenure.cli import remote_jobs  # only remote commands need it

        changed = {worker: remote_jobs.resume_worker(remote, worker) for worker in workers}
    else:
        with any_app() as app, audited(app, "worker.resume", workers) as counts:
            changed = {worker: app.guards.resume_worker(worker) for worker in workers}
            counts["resumed"] = sum(changed.values())
    _print_changes(changed, as_json, "resumed", "resumed", "was not draining")


def _drain(app: Tenure, workers: Sequence[str], reason: str | None) -> dict[str, bool]:
    if not workers:
        return {}
    app.guards.check_alive(*workers)  # all of them, before any is drained
    with audited(app, "worker.drain", workers, reason) as counts:
        changed = {worker: app.guards.drain_worker(worker, reason) for worker in workers}
        counts["drained"] = sum(changed.values())
    return changed


def _workers_of_host(app: Tenure) -> tuple[str, ...]:
    host = socket.gethostname()
    found = required(app.parts().workers, "registry of workers").alive()
    return tuple(worker.id for worker in found if worker.host == host)


def _wait_until_idle(app: Tenure, workers: Sequence[str], limit: float) -> None:
    """Wait until each has reported, with a heartbeat after its drain, that it holds no job, or has ended."""
    registry = required(app.parts().workers, "registry of workers")
    deadline = time.monotonic() + limit
    with LiveLine(sys.stderr) as line:
        while True:
            busy = [each for each in registry.alive() if each.id in workers and (each.jobs or not each.draining_since)]
            if not busy:
                return
            line.show(f"{len(busy)} of {len(workers)} workers still run jobs")
            if time.monotonic() >= deadline:
                names = ", ".join(each.id for each in busy)
                raise WorkersBusy(f"these workers still run jobs after {limit:g} s: {names}")
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _drains(app: Tenure, found: list[WorkerRecord]) -> dict[str, Paused]:
    """The draining workers, read from the store: a worker reports its drain only with its next heartbeat."""
    try:
        return app.guards.draining(*(worker.id for worker in found))
    except SettingsError:  # neither the backend nor a store has guards
        return {}


def _print_changes(changed: dict[str, bool], as_json: bool, key: str, done: str, not_done: str) -> None:
    if as_json:
        output.print_json([{"worker": worker, key: did} for worker, did in changed.items()])
        return
    for worker, did in changed.items():
        click.echo(f"{output.format_value(worker)} {done if did else not_done}")


def _row(worker: WorkerRecord, drain: Paused | None) -> list[Any]:
    lanes = "; ".join(map(output.format_lane, worker.lanes))
    times = (output.as_datetime(worker.started_at), output.as_datetime(worker.seen_at))
    draining = (output.as_datetime(drain.since), drain.reason) if drain else (None, None)
    return [worker.id, lanes, *times, len(worker.jobs), worker.counts, worker.memory or None, *draining]


def _fields(worker: WorkerRecord, drain: Paused | None) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "runner": worker.runner,
        "concurrency": worker.concurrency,
        "started_at": output.as_datetime(worker.started_at),
        "seen_at": output.as_datetime(worker.seen_at),
        "jobs": list(worker.jobs),
        "counts": worker.counts,
        "handlers": list(worker.handlers),
        "kids": list(worker.kids),
        "lanes": [msgspec.to_builtins(lane) for lane in worker.lanes],
        "running": [_running_fields(job) for job in worker.running],
        "memory": worker.memory,
        "peak_child": worker.peak_child,
        "max_memory": worker.max_memory,
        "draining_since": output.as_datetime(drain.since) if drain else None,
        "draining_reason": drain.reason if drain else None,
    }


def _running_fields(job: RunningJob) -> dict[str, Any]:
    return {**msgspec.to_builtins(job), "started_at": output.as_datetime(job.started_at)}
