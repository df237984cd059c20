"""What `tenure health` prints for people: counts, statistics, and facts about the server."""

from collections.abc import Sequence
from typing import Any

import click

from tenure.app.dashboard.health import Health
from tenure.cli import output
from tenure.cli.tables import Column, print_table
from tenure.events import JOB_STATES
from tenure.metrics.queue_signals import QueueSignals
from tenure.metrics.statistics import Summary

_COLUMNS = (
    "done",
    Column("failed", rank=2),
    Column("retried", rank=1),
    "dead",
    Column("per minute", rank=5),
    *("wait p50", Column("wait p95", rank=4), "run p50", Column("run p95", rank=3), Column("run p99", rank=6)),
)


def print_health(found: Health) -> None:
    schema, counts = found.schema, found.queues
    versions = f", schema {schema.stored} (needed: {schema.needed})" if schema else ""
    click.echo(f"{found.backend}{versions}")
    for fact in found.facts:
        click.echo(f"{'WARNING: ' if fact.warning else ''}{fact.about}: {fact.text}")
    if counts is None:
        click.echo("this backend does not count jobs")
    elif not counts:
        click.echo("no jobs waiting, running or dead")
    else:
        states = [state for state in JOB_STATES if state in next(iter(counts.values()))]
        print_table(["queue", *states], [[queue, *map(counts[queue].get, states)] for queue in sorted(counts)])
    _print_signals(found.signals or ())
    for rate in found.rates:
        click.echo(
            f"rate of {rate.queue}: {rate.rate}, {rate.used} of {rate.burst} used, "
            f"next start in {output.format_seconds(rate.again)}"
        )
    _print_summaries(found.last, "queue", found.by_queue)
    _print_summaries(found.last, "handler", found.by_handler)


def _print_signals(found: Sequence[QueueSignals]) -> None:
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


def _print_summaries(last: str, by: str, summaries: Sequence[Summary] | None) -> None:
    if summaries:
        click.echo(f"\nlast {last}:" if by == "queue" else "")
        print_table([by, *_COLUMNS], [_summary_row(summary) for summary in summaries])


def _summary_row(summary: Summary) -> list[Any]:
    durations = (summary.wait.p50, summary.wait.p95, summary.run.p50, summary.run.p95, summary.run.p99)
    counts = (summary.done, summary.failed, summary.retried, summary.dead)
    return [summary.name, *counts, f"{summary.rate * 60:.3g}", *map(output.format_seconds, durations)]
