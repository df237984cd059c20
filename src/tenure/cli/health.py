"""`tenure health`: how many jobs are where, how the last hours went, and what the server says about itself."""

from typing import Any

import click

from tenure.app import Tenure
from tenure.app.history import summarise
from tenure.backends.asking import STATES, Counted
from tenure.backends.contract import InProcess
from tenure.backends.opening import without_secrets
from tenure.backends.upkeep import Candid, Embedded, Fact, Migratable, Statistical
from tenure.cli import printing
from tenure.cli.loading import any_app
from tenure.definition.duration import to_seconds
from tenure.errors import SettingsError
from tenure.metrics.signals import Signals
from tenure.metrics.summary import By, Summary

_SHOWN = ("ready", "delayed", "parked", "leased", "dead")
_COLUMNS = ("done", "failed", "retried", "dead", "per minute", "wait p50", "wait p95", "run p50", "run p95", "run p99")


@click.command()
@click.option("--last", metavar="TIME", default="24h", show_default=True, help="How far back statistics go.")
@click.option("--all", "everything", is_flag=True, help="Count ended jobs too; takes as long as there are many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def health(last: str, everything: bool, as_json: bool) -> None:
    """Count jobs per queue and state, and tell how the last day went and what the server promises."""
    with any_app() as app:
        found = _examine(app, last, everything)
    if as_json:
        printing.as_json(found)
    else:
        _show(found)


def _examine(app: Tenure, last: str, everything: bool) -> dict[str, Any]:
    backend = app.backend
    schema = None
    if isinstance(backend, Migratable):
        schema = dict(zip(("stored", "needed"), backend.schema_version(), strict=True))
    counts = backend.counts(ended=everything) if isinstance(backend, Counted) else None
    if counts is not None and not everything:
        counts = {queue: {state: states[state] for state in _SHOWN} for queue, states in counts.items()}
    keeps = isinstance(backend, Statistical) or isinstance(app.shelves().store, Statistical)
    ways: tuple[By, By] = ("queue", "handler")
    seconds = to_seconds(last, "--last")
    told = summarise(app.shelves().books, app.clock, seconds, *ways) if keeps else (None, None)
    return {
        "backend": without_secrets(app.settings.url),
        "schema": schema,
        "facts": [*(backend.facts() if isinstance(backend, Candid) else []), *_outages(app)],
        "queues": counts,
        "signals": app.signals() if counts is not None else None,
        "last": last,
        **{f"by_{way}": each for way, each in zip(ways, told, strict=True)},
    }


def _outages(app: Tenure) -> list[Fact]:
    """How workers leave a server alone that does not answer."""
    if isinstance(app.backend, (InProcess, Embedded)):
        return []
    try:
        breaker = app.guards.around_backend()
    except SettingsError as error:
        return [Fact("store", str(error), warning=True)]
    if breaker is None:
        return [Fact("outages", "each worker has its own breaker around the backend, because guards live in it too")]
    state = breaker.state()
    told = f"all workers share a breaker around the backend, in the store; it is {state.replace('_', '-')}"
    return [Fact("outages", told, warning=state != "closed")]


def _show(found: dict[str, Any]) -> None:
    schema, counts = found["schema"], found["queues"]
    versions = f", schema {schema['stored']} (needed: {schema['needed']})" if schema else ""
    click.echo(f"{found['backend']}{versions}")
    for fact in found["facts"]:
        click.echo(f"{'WARNING: ' if fact.warning else ''}{fact.about}: {fact.text}")
    if counts is None:
        click.echo("this backend keeps no counts")
    elif not counts:
        click.echo("no jobs wait, run or lie dead")
    else:
        states = [state for state in STATES if state in next(iter(counts.values()))]
        printing.table(["queue", *states], [[queue, *map(counts[queue].get, states)] for queue in sorted(counts)])
    _show_signals(found["signals"] or [])
    for by in ("queue", "handler"):
        _show_last(found["last"], by, found[f"by_{by}"])


def _show_signals(found: list[Signals]) -> None:
    """Only while somebody works: before, there is nothing to tell that the counts do not."""
    if any(each.service_rate for each in found):
        click.echo("")
        rows = [
            [
                each.queue,
                printing.seconds(each.oldest_age),
                *(_rate(rate) for rate in (each.arrival_rate, each.service_rate)),
                printing.seconds(each.seconds_to_drain),
            ]
            for each in found
        ]
        printing.table(["queue", "oldest", "arrive/s", "end/s", "to drain"], rows)


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.3g}"


def _show_last(last: str, by: str, summaries: list[Summary] | None) -> None:
    if summaries:
        click.echo(f"\nlast {last}:" if by == "queue" else "")
        printing.table([by, *_COLUMNS], [_row(summary) for summary in summaries])


def _row(summary: Summary) -> list[Any]:
    lengths = (summary.wait.p50, summary.wait.p95, summary.run.p50, summary.run.p95, summary.run.p99)
    counts = (summary.done, summary.failed, summary.retried, summary.dead)
    return [summary.name, *counts, f"{summary.rate * 60:.3g}", *map(printing.seconds, lengths)]
