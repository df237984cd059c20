"""`tenure audit`: what users did in the dashboard and its API, the newest first."""

from typing import Any

import click

from tenure.app.dashboard.audit import AuditFilter, audit_row, read_audit
from tenure.backends.contract import required
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.tables import Column, print_rows
from tenure.clock import MICROSECOND
from tenure.definition.duration import to_seconds

_COLUMNS = (
    Column("at", "when"),
    Column("user", "who"),
    Column("action", "what"),
    "target",
    "result",
    Column("why", rank=1),
    Column("state", rank=3),
    Column("origin", rank=4),
    Column("error", rank=2),
)


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="How many at most."
)
@click.option("--user", default="", metavar="NAME", help="Only what this user did.")
@click.option("--action", default="", metavar="ACTION", help="Only this action, such as queue.pause, or all of queue.")
@click.option("--newer-than", metavar="TIME", help="Only what was done within this time, such as 24h.")
@output.json_option
def audit(limit: int, user: str, action: str, newer_than: str | None, as_json: bool) -> None:
    """List what users did: who, what, to which jobs, how many, why and when."""
    with any_app() as app:
        log = required(app.parts().audit, "audit log")
        since = 0
        if newer_than is not None:
            since = app.clock.now() - round(to_seconds(newer_than, "--newer-than") * MICROSECOND)
        part = read_audit(log, AuditFilter(user=user, action=action, since=since), limit)
    rows: list[dict[str, Any]] = [_fields(audit_row(record)) for record in part.records]
    if as_json:
        output.print_json([{**row, "counts": record.counts} for row, record in zip(rows, part.records, strict=True)])
    elif rows:
        print_rows(_COLUMNS, rows)
    else:
        click.echo("the audit log has no such record" if user or action or newer_than else "the audit log is empty")
    if part.next is not None:
        click.echo(f"there are more; --limit shows more than {limit}", err=True)


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
