"""The configuration of the Django app `tenure`."""

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from tenure.integrations.django.current_app import project
from tenure.integrations.django.database_url import is_test


class TenureConfig(AppConfig):
    """Background jobs and schedules."""

    name = "tenure.integrations.django"
    label = "tenure"
    verbose_name = "Tenure"
    default_auto_field: Any = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenure.integrations.django.checks import TAG, check_deployment, check_settings, check_tables

        project.remember_names()
        setting_changed.connect(project.setting_changed, dispatch_uid="tenure.setting_changed")
        connection_created.connect(_let_go_of_database, dispatch_uid="tenure.connection_created")
        post_migrate.connect(_after_migrate, sender=self, dispatch_uid="tenure.post_migrate")
        checks.register(check_settings, TAG)
        checks.register(check_deployment, TAG, deploy=True)
        checks.register(check_tables, checks.Tags.database)


def _after_migrate(**details: Any) -> None:
    from tenure.integrations.django.schema import after_migrate

    after_migrate(**details)


def _let_go_of_database(connection: Any, **_: Any) -> None:
    """Close Tenure's connections before tests copy or drop their database, which PostgreSQL refuses otherwise.

    Django does that on a connection to no database of the project.
    """
    if is_test() and not connection.settings_dict["NAME"]:
        project.close()
