"""`tenure clean`: delete records that are past their retention; every worker does the same by itself."""

import click

from tenure.cli import output
from tenure.cli.app_loader import any_app


@click.command()
@output.json_option
def clean(as_json: bool) -> None:
    """Delete ended jobs, statistics and guards that are past their retention."""
    with any_app() as app:
        deleted = app.clean()
    if as_json:
        output.print_json({"deleted": deleted})
    else:
        click.echo(f"deleted {deleted} records that were past their retention")
