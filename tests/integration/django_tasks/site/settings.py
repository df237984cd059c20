"""Settings of the project of these tests: SITE_DATABASE is the folder of its SQLite database, or a PostgreSQL URL."""

import os
from urllib.parse import urlsplit

SECRET_KEY = "only for the tests of this project, and long enough for it"
USE_TZ = True
TIME_ZONE = "Europe/Madrid"
INSTALLED_APPS = ["tenure.integrations.django", "shop"]
QUEUES = ["default", "emails", "order"]
BACKEND = "tenure.integrations.django.tasks.TenureBackend"
TASKS = {
    "default": {"BACKEND": BACKEND, "QUEUES": QUEUES, "OPTIONS": {"modules": ["shop.letters"]}},
    "second": {"BACKEND": BACKEND, "QUEUES": []},
    "elsewhere": {"BACKEND": BACKEND, "OPTIONS": {"backend": "elsewhere"}},
}
TENURE = {
    "retention": {"payloads": 7},
    "queues": QUEUES,
    "backends": {"elsewhere": f"sqlite:///{os.environ['SITE_FOLDER']}/elsewhere.db"},
}
if "SITE_BACKEND" in os.environ:
    TENURE["url"] = os.environ["SITE_BACKEND"]
if "SITE_STORE" in os.environ:
    TENURE["store"] = os.environ["SITE_STORE"]

given = os.environ["SITE_DATABASE"]
if given.startswith("postgresql:"):
    parts = urlsplit(given)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.strip("/"),
            "USER": parts.username,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"{given}/site.sqlite3",
            "TEST": {"NAME": f"{given}/test.sqlite3"},  # Django never closes a connection to a database in memory
        }
    }
