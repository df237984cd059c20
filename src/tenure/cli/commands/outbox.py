"""`tenure outbox`: the outboxes in the databases of an application, and the relay that empties them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from tenure.app import Tenure
from tenure.app.outbox import sql as outbox_sql
from tenure.app.outbox.outboxes import Outboxes
from tenure.backends.sql import migrations
from tenure.backends.sql.outbox.database import OutboxDatabase, OutboxDepth, OutboxJob
from tenure.cli import output
from tenure.cli.app_loader import any_app
from tenure.cli.audit import audited, why_option
from tenure.cli.commands.outbox_work import work
from tenure.cli.tables import Column, print_rows
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

_STATUS_COLUMNS = ("outbox", "backend", "jobs", "refused", Column("oldest", show=output.format_seconds))
_LIST_COLUMNS = (
    "id", Column("backend", rank=2), Column("queue", rank=3), "handler", "created", "tries",
    Column("again", rank=1), Column("error", rank=1),
)  # fmt: skip
_EXIT_UNKNOWN = 1

database_option = click.option(
    "--database", "databases", multiple=True, metavar="URL",
    help="A database with an outbox, instead of those of the setting outboxes; repeatable.",
)  # fmt: skip


@click.group()
def outbox() -> None:
    """Move, list and retry jobs that wait in the databases of an application."""


outbox.add_command(work)


@outbox.command()
@database_option
@output.json_option
def status(databases: tuple[str, ...], as_json: bool) -> None:
    """Count the jobs that wait, by outbox and backend, with the age of the oldest."""
    with any_app(create=True) as app:
        found = [_status_fields(name, depth) for name, depth in _outboxes(app, databases).depths()]
    if as_json:
        output.print_json(found)
    else:
        print_rows(_STATUS_COLUMNS, found)


@outbox.command("list")
@click.option("--refused", is_flag=True, help="Only jobs that their backend has refused.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="How many per outbox."
)
@database_option
@output.json_option
def list_(refused: bool, limit: int, databases: tuple[str, ...], as_json: bool) -> None:
    """List the jobs that wait, the oldest first, with the error of the last try."""
    rows: list[dict[str, Any]] = []
    has_more = False
    with any_app(create=True) as app, _outboxes(app, databases).databases() as opened:
        for database in opened:
            page = database.page(limit + 1, only_refused=refused)
            has_more |= len(page) > limit
            rows += [_job_fields(database, job) for job in page[:limit]]
    if as_json:
        output.print_json(rows)
    elif rows:
        print_rows(_LIST_COLUMNS, rows)
    else:
        click.echo("no job waits in an outbox" if not refused else "no job of an outbox was refused")
    if has_more:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


@outbox.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--refused", is_flag=True, help="All jobs that their backend has refused.")
@database_option
@why_option
@output.json_option
@click.pass_context
def retry(
    ctx: click.Context, ids: tuple[str, ...], refused: bool, databases: tuple[str, ...], why: str | None, as_json: bool
) -> None:
    """Let the relay try these jobs again now; exit code 1 if one does not wait in an outbox."""
    if bool(ids) == refused:
        raise click.UsageError("give the ids of jobs, or --refused")
    found = _change(databases, lambda database: database.retry(ids or None), "outbox.retry", ids or ("refused",), why)
    _print_changed(ctx, ids, found, "is tried again", as_json)


@outbox.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@database_option
@why_option
@output.json_option
@click.pass_context
def delete(
    ctx: click.Context, ids: tuple[str, ...], databases: tuple[str, ...], why: str | None, as_json: bool
) -> None:
    """Delete these jobs for good: they never reach their backend. A job that is being moved stays."""
    found = _change(databases, lambda database: database.remove(ids), "outbox.delete", ids, why)
    _print_changed(ctx, ids, found, "is deleted", as_json)


@outbox.command()
@database_option
def migrate(databases: tuple[str, ...]) -> None:
    """Create or update the table of the outbox."""
    with _all_databases(databases) as opened:
        for database in opened:
            for step in database.schema.migrate():
                click.echo(f"{database.name}: applied {step}")
            click.echo(f"{database.name}: up to date, schema version {database.schema.version()[0]}")


@outbox.command()
@click.option("--dialect", type=click.Choice(migrations.DIALECTS), default="sqlite", show_default=True)
def sql(dialect: str) -> None:
    """Print the SQL that creates the table of the outbox."""
    click.echo(outbox_sql(dialect), nl=False)


def _outboxes(app: Tenure, databases: tuple[str, ...]) -> Outboxes:
    return app.outboxes.on(*databases) if databases else app.outboxes


@contextmanager
def _all_databases(databases: tuple[str, ...]) -> Iterator[Iterator[OutboxDatabase]]:
    with any_app(create=True) as app, _outboxes(app, databases).databases() as opened:
        yield opened


def _change(
    databases: tuple[str, ...], change: Callable[[OutboxDatabase], list[str]], action: str, targets: tuple[str, ...],
    why: str | None,
) -> list[str]:  # fmt: skip
    """Change every outbox; return the ids of the jobs that were changed."""
    with any_app(create=True) as app, ExitStack() as stack:
        opened = stack.enter_context(_outboxes(app, databases).databases())
        try:
            counts = stack.enter_context(audited(app, action, targets, why))
        except BackendError as error:  # the jobs may be in the outbox because the backend is down
            logger.warning("this is not written to the audit log: %s", error)
            counts = Counter()
        found = [id for database in opened for id in change(database)]
        counts["changed"] = len(found)
    return found


def _print_changed(ctx: click.Context, ids: tuple[str, ...], found: list[str], what: str, as_json: bool) -> None:
    missing = [id for id in ids if id not in found]
    if as_json:
        output.print_json({"changed": found, "missing": missing})
    else:
        for id in found:
            click.echo(f"{output.format_value(id)} {what}")
        for id in missing:
            click.echo(f"{output.format_value(id)} does not wait in an outbox, or is being moved now", err=True)
    if missing:
        ctx.exit(_EXIT_UNKNOWN)


def _status_fields(name: str, depth: OutboxDepth) -> dict[str, Any]:
    return {
        "outbox": name,
        "backend": depth.backend or None,
        "jobs": depth.jobs,
        "refused": depth.refused,
        "oldest": round(depth.oldest_age, 3),
    }


def _job_fields(database: OutboxDatabase, job: OutboxJob) -> dict[str, Any]:
    return {
        "outbox": database.name,
        "id": job.id,
        "backend": job.backend or None,
        "queue": job.queue,
        "handler": job.handler,
        "created": output.as_datetime(job.created),
        "tries": job.tries,
        "again": output.as_datetime(job.again) if job.tries or job.is_claimed else None,
        "claimed": job.is_claimed,
        "error": job.error,
    }
