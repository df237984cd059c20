"""`tenure health`: how many jobs are where, and what the server says about itself."""

from typing import Any

import click

from tenure.app import Tenure
from tenure.backends.contract import STATES, Candid, Counted, Migratable
from tenure.backends.opening import without_secrets
from tenure.cli import printing
from tenure.cli.loading import any_app


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def health(as_json: bool) -> None:
    """Count jobs per queue and state, and tell what the server promises."""
    with any_app() as app:
        found = _examine(app)
    if as_json:
        printing.as_json(found)
    else:
        _show(found)


def _examine(app: Tenure) -> dict[str, Any]:
    backend = app.backend
    schema = None
    if isinstance(backend, Migratable):
        schema = dict(zip(("stored", "needed"), backend.schema_version(), strict=True))
    counts = backend.counts() if isinstance(backend, Counted) else None
    facts = backend.facts() if isinstance(backend, Candid) else []
    return {"backend": without_secrets(app.settings.url), "schema": schema, "facts": facts, "queues": counts}


def _show(found: dict[str, Any]) -> None:
    schema, counts = found["schema"], found["queues"]
    versions = f", schema {schema['stored']} (needed: {schema['needed']})" if schema else ""
    click.echo(f"{found['backend']}{versions}")
    for fact in found["facts"]:
        click.echo(f"{'WARNING: ' if fact.warning else ''}{fact.about}: {fact.text}")
    if counts is None:
        click.echo("this backend keeps no counts")
    elif not counts:
        click.echo("no jobs yet")
    else:
        rows = [[queue, *(counts[queue][state] for state in STATES)] for queue in sorted(counts)]
        printing.table(["queue", *STATES], rows)
