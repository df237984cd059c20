"""The permissions of the dashboard, and the tables of Tenure."""

from typing import Any, ClassVar

from django.db import migrations, models

from tenure.integrations.django.schema import CreateTables


class Migration(migrations.Migration):
    """Not atomic: the tables are created on a connection of Tenure, which SQLite would not let in."""

    initial = True
    atomic = False
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="BackgroundJobs",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": (
                    ("view_jobs", "Can view jobs in the dashboard"),
                    ("operate_jobs", "Can retry, cancel and pause in the dashboard"),
                    ("admin_jobs", "Can delete jobs and read settings in the dashboard"),
                ),
                "managed": False,
                "default_permissions": (),
            },
        ),
        CreateTables(),
    ]
