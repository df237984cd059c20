"""The permissions of the dashboard, which Django creates for a model; Tenure keeps no data in models."""

from django.db import models


class BackgroundJobs(models.Model):
    """Has no table: it carries the permissions, and is the entry of the dashboard in the admin."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("view_jobs", "Can view jobs in the dashboard"),
            ("operate_jobs", "Can retry, cancel and pause in the dashboard"),
            ("admin_jobs", "Can delete jobs and read settings in the dashboard"),
        )
        verbose_name = "job"
        verbose_name_plural = "jobs"
