"""`tenure health`: jobs per queue and state, statistics of the last hours, and facts about the server."""

from collections.abc import Sequence
from typing import Any

import click

from tenure.app import Tenure
from tenure.app.results import summarise_stats
from tenure.backends.records import Fact
from tenure.backends.url import without_secrets
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.queue_names import find_queue
from tenure.cli.tables import Column, print_table
from tenure.definition.duration import to_seconds
from tenure.errors import SettingsError
from tenure.events import JOB_STATES
from tenure.metrics.queue_signals import QueueSignals
from tenure.metrics.statistics import By, Summary

_LIVE_STATES = ("ready", "delayed", "parked", "leased", "dead")
_COLUMNS = (
    "done",
    Column("failed", rank=2),
    Column("retried", rank=1),
    "dead",
    Column("per minute", rank=5),
    *("wait p50", Column("wait p95", rank=4), "run p50", Column("run p95", rank=3), Column("run p99", rank=6)),
)


@click.command()
@click.option("--last", metavar="TIME", default="24h", show_default=True, help="How far back the statistics go.")
@click.option("--all", "with_ended", is_flag=True, help="Count ended jobs too; slow if there are many.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable.")
@output.json_option
def health(last: str, with_ended: bool, queues: tuple[str, ...], as_json: bool) -> None:
    """Count jobs per queue and state, and show statistics of the last day and facts about the server."""
    with any_app() as app:
        found = collect_health(app, last, with_ended, [find_queue(app, queue) for queue in queues])
    if as_json:
        output.print_json(found)
    else:
        _print_health(found)


def collect_health(app: Tenure, last: str, with_ended: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON fields of the command, of all queues or only of these."""
    backend, parts = app.backend, app.parts()
    schema = None
    if backend.schema is not None:
        schema = dict(zip(("stored", "needed"), backend.schema.version(), strict=True))
    counts = None if parts.queues is None else parts.queues.counts(ended=with_ended)
    if counts is not None and not with_ended:
        counts = {queue: {state: states[state] for state in _LIVE_STATES} for queue, states in counts.items()}
    if counts is not None and only:
        none = dict.fromkeys(JOB_STATES if with_ended else _LIVE_STATES, 0)
        counts = {queue: counts.get(queue, none) for queue in only}
    groups: tuple[By, By] = ("queue", "handler")
    seconds = to_seconds(last, "--last")
    summaries: Sequence[list[Summary] | None] = (None, None)
    if parts.stats is not None:
        summaries = summarise_stats(parts.stats, app.clock, seconds, *groups, queues=only)
    return {
        "backend": without_secrets(app.settings.url),
        "schema": schema,
        "facts": [*([] if backend.server is None else backend.server.facts()), *_outage_facts(app)],
        "queues": counts,
        "signals": [each for each in app.signals() if each.queue in counts] if counts is not None else None,
        "rates": _rates(app, only),
        "last": last,
        **{f"by_{group}": each for group, each in zip(groups, summaries, strict=True)},
    }


def _rates(app: Tenure, only: Sequence[str]) -> list[dict[str, Any]]:
    """How much of the rate of each queue is used."""
    limited = [queue for queue in app.settings.rates if not only or queue in only]
    usages = [(queue, app.guards.queue(queue).usage()) for queue in limited]
    return [
        {"queue": queue, "rate": app.settings.rates[queue], "used": usage.used, "burst": usage.burst,
         "again": usage.again}
        for queue, usage in usages
    ]  # fmt: skip


def _outage_facts(app: Tenure) -> list[Fact]:
    """How workers react when the server does not answer."""
    if app.backend.in_process or app.backend.file is not None:
        return []
    try:
        breaker = app.guards.around_backend()
    except SettingsError as error:
        return [Fact("store", str(error), warning=True)]
    if breaker is None:
        return [Fact("outages", "each worker has its own breaker around the backend, because guards live in it too")]
    state = breaker.state()
    text = f"all workers share a breaker around the backend, in the store; it is {state.replace('_', '-')}"
    return [Fact("outages", text, warning=state != "closed")]


def _print_health(found: dict[str, Any]) -> None:
    schema, counts = found["schema"], found["queues"]
    versions = f", schema {schema['stored']} (needed: {schema['needed']})" if schema else ""
    click.echo(f"{found['backend']}{versions}")
    for fact in found["facts"]:
        click.echo(f"{'WARNING: ' if fact.warning else ''}{fact.about}: {fact.text}")
    if counts is None:
        click.echo("this backend does not count jobs")
    elif not counts:
        click.echo("no jobs waiting, running or dead")
    else:
        states = [state for state in JOB_STATES if state in next(iter(counts.values()))]
        print_table(["queue", *states], [[queue, *map(counts[queue].get, states)] for queue in sorted(counts)])
    _print_signals(found["signals"] or [])
    for rate in found["rates"]:
        click.echo(
            f"rate of {rate['queue']}: {rate['rate']}, {rate['used']} of {rate['burst']} used, "
            f"next start in {output.format_seconds(rate['again'])}"
        )
    for by in ("queue", "handler"):
        _print_summaries(found["last"], by, found[f"by_{by}"])


def _print_signals(found: list[QueueSignals]) -> None:
    """Print rates only while jobs end; before that they add nothing to the counts."""
    if any(each.service_rate for each in found):
        click.echo("")
        rows = [
            [
                each.queue,
                output.format_seconds(each.oldest_age),
                *(_format_rate(rate) for rate in (each.arrival_rate, each.service_rate)),
                output.format_seconds(each.seconds_to_drain),
            ]
            for each in found
        ]
        print_table(["queue", "oldest", "arrive/s", "end/s", "to drain"], rows)


def _format_rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.3g}"


def _print_summaries(last: str, by: str, summaries: list[Summary] | None) -> None:
    if summaries:
        click.echo(f"\nlast {last}:" if by == "queue" else "")
        print_table([by, *_COLUMNS], [_summary_row(summary) for summary in summaries])


def _summary_row(summary: Summary) -> list[Any]:
    durations = (summary.wait.p50, summary.wait.p95, summary.run.p50, summary.run.p95, summary.run.p99)
    counts = (summary.done, summary.failed, summary.retried, summary.dead)
    return [summary.name, *counts, f"{summary.rate * 60:.3g}", *map(output.format_seconds, durations)]
