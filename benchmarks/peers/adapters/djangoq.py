"""django-q2 with its ORM broker: finished tasks are not kept, fifty fetched at a time."""

import os
import sys
from urllib.parse import urlsplit

import django
import pymysql
from django.conf import settings
from django.core.management import call_command

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import LEASE, RESULT_SECONDS, URL

pymysql.install_as_MySQLdb()
_url = urlsplit(URL)
_database = {"NAME": _url.path[1:], "HOST": _url.hostname, "PORT": _url.port, "USER": _url.username}
_cluster = {"orm": "default", "workers": int(os.environ.get("BENCH_PROCESSES", "1")), "bulk": 50, "queue_limit": 500}
_cluster |= {"poll": 0.02, "catch_up": False, "log_level": "ERROR", "timeout": LEASE - 5}
_cluster["save_limit"] = 0 if RESULT_SECONDS else -1  # 0 keeps all, -1 none
if not settings.configured:
    settings.configure(
        SECRET_KEY="bench",
        INSTALLED_APPS=["django_q"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.mysql", "CONN_MAX_AGE": 600, **_database}},
        Q_CLUSTER={"name": "bench", "retry": LEASE, "max_attempts": 4, **_cluster},
    )
    django.setup()

from django_q.models import Success  # noqa: E402 - not before the settings
from django_q.tasks import async_task  # noqa: E402


def setup() -> None:
    call_command("migrate", verbosity=0)


def send(job: str, i: int, pad: str) -> None:
    async_task(SYNC[job], i, pad)


def kept() -> int:
    return Success.objects.count()


def worker(processes: int, job: str) -> list[list[str]]:
    return [["env", f"BENCH_PROCESSES={processes}", sys.executable, "-m", "benchmarks.peers.adapters.djangoq"]]


if __name__ == "__main__":
    call_command("qcluster")
