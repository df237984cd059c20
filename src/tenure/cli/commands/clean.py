"""`tenure clean`: delete records that are past their retention, and free expired leases, as every worker does."""

import click

from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.commands.queues import known_queues
from tenure.cli.progress import busy_line


@click.command()
@output.json_option
def clean(as_json: bool) -> None:
    """Delete ended jobs and other records that are past their retention; free expired leases."""
    with any_app() as app, busy_line("deleting old records", hidden=as_json):
        kinds = app.clean_by_kind()
        returned = len(app.backend.reap(known_queues(app)))
    deleted = sum(kinds.values())
    if as_json:
        counts = {kind.replace(" ", "_"): count for kind, count in kinds.items()}
        output.print_json({"deleted": deleted, "kinds": counts, "expired_leases": returned})
        return
    listed = ", ".join(f"{kind} {count}" for kind, count in kinds.items() if count)
    click.echo(f"deleted {deleted} records that were past their retention{f': {listed}' if listed else ''}")
    click.echo(f"returned {returned} jobs whose lease had expired to their queues")
