"""`tenure jobs`: single jobs, wherever they are in their lives."""

from typing import Any

import click

from tenure.cli import printing, records
from tenure.cli.loading import any_app


@click.group()
def jobs() -> None:
    """Look at single jobs."""


@jobs.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(id: str, as_json: bool) -> None:
    """Show everything that is known about a job."""
    with any_app() as app:
        found = records.everything(records.find(app, id), app.channel().wire)
    display(found, as_json)


def display(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        printing.as_json(found)
        return
    failures = found.pop("failures")
    printing.facts(found)
    for failure in failures:
        place = f" ({failure['place']})" if failure["place"] else ""
        story = f"{failure['type']}: {failure['message']}{place}"
        click.echo(f"attempt {failure['attempt']} at {printing.text(failure['at'])}: {printing.text(story)}")
    if failures and failures[-1]["trace"]:
        click.echo(printing.text(failures[-1]["trace"]), nl=False)
