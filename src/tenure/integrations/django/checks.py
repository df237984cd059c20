"""System checks for `manage.py check`: settings, jobs, tables, and what a deployment should not do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import DatabaseError

from tenure.errors import TenureError
from tenure.integrations.django.configuration import Configuration
from tenure.integrations.django.current_app import current_configuration, get_app
from tenure.integrations.django.database_url import VENDORS
from tenure.integrations.django.schema import has_tables, is_migrated, missing_tables

TAG = "tenure"
_INSECURE = "django-insecure-"


def check_settings(app_configs: Any = None, **_: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """tenure.E001: settings that cannot be used; tenure.E002: jobs that cannot be imported."""
    try:
        found = current_configuration()
    except TenureError as error:
        hint = "See 'Use Tenure with Django' in the documentation for the names in TENURE."
        return [Error(str(error), hint=hint, id="tenure.E001")]
    try:
        get_app()
    except Exception as error:  # a module of the user may raise anything
        text = f"a jobs module cannot be imported: {type(error).__qualname__}: {error}"
        return [Error(text, hint="Workers would not know its jobs; mend the module.", id="tenure.E002")]
    return _check_outbox(found)


def _check_outbox(found: Configuration) -> list[CheckMessage]:
    alias = found.options.database
    if found.uses_outbox and connections[alias].vendor not in VENDORS:
        return [
            Error(
                f"the database {alias!r} cannot have the outbox of Tenure: its engine is "
                f"{connections[alias].settings_dict['ENGINE']!r}",
                hint="Name another database in TENURE['DATABASE'], or set TENURE['DEFER'] to 'on_commit'.",
                id="tenure.E003",
            )
        ]
    if found.options.defer == "never" and not found.uses_database and _has_atomic_requests(alias):
        return [
            Warning(
                "ATOMIC_REQUESTS is on and TENURE['DEFER'] is 'never': a worker may run a job before the request that "
                "enqueued it is committed",
                hint="Leave TENURE['DEFER'] out, so that jobs wait in the outbox for the commit.",
                id="tenure.W001",
            )
        ]
    return []


def _has_atomic_requests(alias: str) -> bool:
    return bool(connections[alias].settings_dict.get("ATOMIC_REQUESTS"))


def check_tables(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """tenure.W002: the tables are missing; for the default database, Django itself tells what is not migrated yet."""
    try:
        alias = current_configuration().options.database
        is_asked = alias in (databases or ()) and has_tables(alias)
        missing = missing_tables(alias) if is_asked and (alias != DEFAULT_DB_ALIAS or is_migrated(alias)) else []
    except (TenureError, DatabaseError):
        return []  # check_settings and Django report these
    if not missing:
        return []
    return [
        Warning(
            f"the database {alias!r} does not have the tables of Tenure yet",
            hint=f"Run `manage.py migrate tenure{'' if alias == 'default' else f' --database {alias}'}`.",
            id="tenure.W002",
        )
    ]


def check_deployment(app_configs: Any = None, **_: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """tenure.W003: keys from an insecure SECRET_KEY; W004: jobs that nothing outlives; W005: a settings file."""
    try:
        found = current_configuration()
    except TenureError:
        return []
    messages: list[CheckMessage] = []
    if found.derives_keys and str(django_settings.SECRET_KEY).startswith(_INSECURE):
        messages.append(
            Warning(
                "the key that signs jobs is derived from a SECRET_KEY that is publicly known",
                hint="Set SECRET_KEY to a long random text, or TENURE['keys'] to keys of `manage.py tenure key new`.",
                id="tenure.W003",
            )
        )
    if found.settings.url.startswith("memory:") and not found.in_database:
        messages.append(
            Warning(
                "jobs are kept in the memory of each process, where no worker finds them",
                hint="Keep them in a database, or name a server in TENURE['url'].",
                id="tenure.W004",
            )
        )
    if Path("tenure.toml").is_file():
        messages.append(
            Warning(
                "the file tenure.toml in this folder sets values too, below those of TENURE",
                hint="Move its settings to TENURE, so that one place has them all.",
                id="tenure.W005",
            )
        )
    return messages
