"""`tenure db`: the schema of backends that have one."""

import click

from tenure.backends.sql import migrations
from tenure.backends.url import without_secrets
from tenure.cli.app_loader import any_app
from tenure.cli.errors import CommandError
from tenure.cli.progress import busy_line


@click.group()
def db() -> None:
    """Bring the database schema up to date."""


@db.command()
def migrate() -> None:
    """Apply the missing migrations."""
    with any_app(create=True) as app:
        schema = app.backend.schema
        if schema is None:
            raise CommandError(f"the backend {without_secrets(app.settings.url)!r} has no schema to migrate")
        with busy_line("migrating"):
            schema.migrate()
        for step in schema.steps_taken:
            click.echo(f"applied {step}")
        stored, _ = schema.version()
        click.echo(f"up to date: schema version {stored}")


@db.command()
@click.option("--dialect", type=click.Choice(migrations.DIALECTS), default="sqlite", show_default=True)
def sql(dialect: str) -> None:
    """Print the SQL that creates the schema."""
    click.echo(migrations.script(dialect), nl=False)
