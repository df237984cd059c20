"""The tables of Tenure in a database of Django: created by `migrate`, dropped by `migrate tenure zero`.

The numbered SQL files of Tenure create them, on a connection of Tenure; Django has no models for them. Each `migrate`
brings them up to date. `flush`, and so each `TransactionTestCase`, empties them.
"""

from typing import Any

from django.conf import settings
from django.db import connections, router, transaction
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder

from tenure.app.outbox import create_table
from tenure.app.outbox import sql as outbox_sql
from tenure.backends.sql.migrations import JOBS, OUTBOX, script
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import SettingsError
from tenure.integrations.django.configuration import Configuration
from tenure.integrations.django.current_app import app_without_jobs, current_configuration
from tenure.integrations.django.database_url import IN_MEMORY, database_url

LABEL = "tenure"
_PREFIX = "tenure_"
_VERSION_TABLES = (JOBS.version_table, OUTBOX.version_table)


class CreateTables(Operation):
    """Creates the tables that the settings need: for the jobs, for the outbox, or for both."""

    reversible = True
    reduces_to_sql = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models do not change."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002 - Django's signature
        alias = schema_editor.connection.alias
        if not has_tables(alias):
            return
        if schema_editor.collect_sql:
            for text in _scripts(schema_editor.connection.vendor, current_configuration()):
                schema_editor.collected_sql.append(text)
        else:
            create_tables(alias)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002 - Django's signature
        if not has_tables(schema_editor.connection.alias):
            return
        app_without_jobs().close()
        for kind, wanted in (("VIEW", True), ("TABLE", False)):
            for name in _tables(schema_editor.connection, views=wanted):
                schema_editor.execute(f"DROP {kind} {schema_editor.quote_name(name)}")

    def describe(self) -> str:
        return "Create the tables of Tenure"


def has_tables(alias: str) -> bool:
    """Whether Tenure's tables belong into the database of this alias."""
    return alias == current_configuration().options.database and bool(router.allow_migrate(alias, LABEL))


def create_tables(alias: str) -> None:
    """Create the tables that the settings need, or bring them up to date."""
    found = current_configuration()
    connection = connections[alias]
    if found.uses_database:
        url = database_url(alias)
        if url != IN_MEMORY:
            open_backend(url, SystemClock()).close()
    if found.uses_outbox:
        create_table(connection)


def after_migrate(using: str, **details: Any) -> None:
    """For the signal `post_migrate`: new tables of a new release, or, after `flush`, empty tables."""
    if using not in connections or not has_tables(using) or not is_migrated(using):
        return
    if "plan" in details:
        create_tables(using)
    else:
        empty_tables(using)


def empty_tables(alias: str) -> None:
    """Delete all jobs, and everything else that Tenure keeps in this database."""
    app_without_jobs().close()
    connection = connections[alias]
    tables = _tables(connection)
    block: Any = transaction.atomic(using=alias)
    with block, connection.cursor() as cursor:
        for table in tables:
            if table not in _VERSION_TABLES:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608 - our own names


def missing_tables(alias: str) -> list[str]:
    """The first table of each kind that the settings need and that the database does not have."""
    if database_url(alias) == IN_MEMORY:
        return []
    found, existing = current_configuration(), set(_tables(connections[alias]))
    wanted = [
        table for table, needed in zip(_VERSION_TABLES, (found.uses_database, found.uses_outbox), strict=True) if needed
    ]
    return [table for table in wanted if table not in existing]


def is_migrated(alias: str) -> bool:
    """Whether the migration of Tenure is applied to this database."""
    if settings.MIGRATION_MODULES.get(LABEL, "") is None:
        return True  # migrations are switched off, as tests may do
    return any(app == LABEL for app, _ in MigrationRecorder(connections[alias]).applied_migrations())


def _tables(connection: Any, *, views: bool = False) -> list[str]:
    with connection.cursor() as cursor:
        found = connection.introspection.get_table_list(cursor)
    return sorted(each.name for each in found if each.name.startswith(_PREFIX) and (each.type == "v") is views)


def _scripts(vendor: str, found: Configuration) -> list[str]:
    if vendor not in ("postgresql", "mysql", "sqlite"):
        raise SettingsError(f"Tenure has no tables for the engine {vendor!r}")
    jobs = [script(vendor)] if found.uses_database else []
    return [*jobs, *([outbox_sql(vendor)] if found.uses_outbox else [])]
