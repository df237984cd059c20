"""`tenure db`: the schema of backends that have one."""

import click

from tenure.backends.opening import without_secrets
from tenure.backends.sql import migrations
from tenure.backends.upkeep import Migratable
from tenure.cli.failures import CommandError
from tenure.cli.loading import any_app


@click.group()
def db() -> None:
    """Bring the database schema up to date."""


@db.command()
def migrate() -> None:
    """Apply the migrations that are missing."""
    with any_app(create=True) as app:
        backend = app.backend
        if not isinstance(backend, Migratable):
            raise CommandError(f"the backend {without_secrets(app.settings.url)!r} has no schema to migrate")
        backend.migrate()
        for step in backend.steps_taken:
            click.echo(f"applied {step}")
        stored, _ = backend.schema_version()
        click.echo(f"up to date: schema version {stored}")


@db.command()
@click.option("--dialect", type=click.Choice(migrations.DIALECTS), default="sqlite", show_default=True)
def sql(dialect: str) -> None:
    """Print the SQL that makes the schema."""
    click.echo(migrations.script(dialect), nl=False)
