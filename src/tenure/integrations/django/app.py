"""The app as child processes and the command `tenure` import it: `tenure.integrations.django.app:app`.

Importing this module sets Django up, by the environment variable DJANGO_SETTINGS_MODULE.
"""

import django
from django.apps import apps

from tenure.integrations.django.current_app import get_app

if not apps.ready:
    django.setup()

app = get_app()
