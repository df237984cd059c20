"""Tenure in Django: `INSTALLED_APPS += ["tenure.integrations.django"]`, and `@job` in the `jobs.py` of your apps.

The app is built from `settings.TENURE` and `settings.DATABASES` at its first use.
"""

from tenure.integrations.django.current_app import get_app
from tenure.integrations.django.definitions import job, schedule

__all__ = ["get_app", "job", "schedule"]
