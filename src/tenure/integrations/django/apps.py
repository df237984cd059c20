"""The configuration of the Django app `tenure`."""

from django.apps import AppConfig
from django.core.signals import setting_changed

from tenure.integrations.django.current_app import project


class TenureConfig(AppConfig):
    """Background jobs and schedules."""

    name = "tenure.integrations.django"
    label = "tenure"
    verbose_name = "Tenure"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        project.remember_names()
        setting_changed.connect(project.setting_changed, dispatch_uid="tenure.setting_changed")
