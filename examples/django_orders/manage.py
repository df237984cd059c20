"""A Django site whose orders are invoiced by background jobs.

In this folder:

    python manage.py migrate
    python manage.py createsuperuser
    python manage.py runserver
    python manage.py tenure work        # in a second terminal

Order something at http://127.0.0.1:8000/, and look at the jobs in http://127.0.0.1:8000/admin/.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    execute_from_command_line(sys.argv)
