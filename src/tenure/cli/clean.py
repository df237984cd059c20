"""`tenure clean`: what is past its retention is deleted; every worker does the same by itself."""

import click

from tenure.cli import printing
from tenure.cli.loading import any_app


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clean(as_json: bool) -> None:
    """Delete ended jobs, statistics and guards that are past their retention."""
    with any_app() as app:
        deleted = app.clean()
    if as_json:
        printing.as_json({"deleted": deleted})
    else:
        click.echo(f"deleted {deleted} records that were past their retention")
