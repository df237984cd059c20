"""Celery and Tenure side by side, with real workers: every task runs exactly once, in one system or the other."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tenure import Tenure
from tests.support.docs_pages import ROOT, blocks
from tests.support.migration import Migration
from tests.support.waiting import WAIT_SECONDS, eventually

redis = pytest.importorskip("redis")
pytest.importorskip("celery")

pytestmark = pytest.mark.slow
WORKER = (
    "celery", "-A", "shop", "worker", "-P", "solo", "-l", "WARNING", "--without-gossip", "--without-mingle",
    "--without-heartbeat",
)  # fmt: skip


def test_celery_is_drained_beside_tenure(migration: Callable[[str], Migration], old_redis: str) -> None:
    shop = migration("celery")
    shop.run(shop.old, "python", "orders.py")
    worker = shop.start(shop.old, *WORKER)
    eventually(lambda: shop.receipts(shop.old).total() == 2)
    shop.run(shop.new, "python", "orders.py")  # a producer that uses Tenure already
    shop.stop(worker)
    shop.run(shop.old, "python", "orders.py")  # a late producer of Celery

    report = shop.run(shop.new, "python", "move.py")
    shop.work()

    assert report == "4 moved, 0 held by workers of Celery\n"
    assert shop.receipts(shop.old) == {"receipt 7": 1, "receipt 13": 1}
    assert shop.receipts(shop.new) == {"receipt 7": 2, "receipt 13": 2}
    with redis.Redis.from_url(old_redis) as client:
        assert [key for key in client.scan_iter() if client.type(key) == b"list"] == []
    with Tenure(shop.url) as app:
        assert len(list(app.jobs.find(state="delayed"))) == 3  # one of Tenure and two that Celery had delayed


def test_tasks_move_while_a_celery_worker_runs(migration: Callable[[str], Migration], old_redis: str) -> None:
    shop = migration("celery")
    shop.run(shop.old, "python", "orders.py")
    with redis.Redis.from_url(old_redis) as client:
        message = next(each for each in map(json.loads, client.lrange("celery", 0, -1)) if not each["headers"]["eta"])
        client.delete("celery")
        client.lpush("celery", *(renewed(message) for _ in range(400)))
    worker = shop.start(shop.old, *WORKER)
    eventually(lambda: shop.receipts(shop.old).total() > 0)

    shop.run(shop.new, "python", "move.py")
    with redis.Redis.from_url(old_redis) as client:
        eventually(lambda: client.llen("celery") == 0 and client.hlen("unacked") == 0)
    shop.stop(worker)
    shop.run(shop.new, "python", "move.py")  # what the worker gave back
    shop.work()

    assert (shop.receipts(shop.old) + shop.receipts(shop.new)).total() == 400


def test_shared_tasks_of_a_django_project_join_its_transactions(tmp_path: Path) -> None:
    pytest.importorskip("django")
    page = ROOT / "docs" / "how-to" / "migrate" / "from-celery.md"
    jobs, apps = (block.text for block in blocks(page) if block.language == "py")
    (tmp_path / "shop").mkdir()
    for name, text in {
        "settings.py": DJANGO_SETTINGS, "run.py": DJANGO_RUN, "shop/__init__.py": "", "shop/tasks.py": DJANGO_TASKS,
        "shop/jobs.py": jobs, "shop/apps.py": apps,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_"))}
    environment = {**kept, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path)}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            timeout=WAIT_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "django", "migrate", "--verbosity", "0")
    run("run.py")
    run("-m", "django", "tenure", "work", "--burst", "--quiet")
    found = json.loads(run("-m", "django", "tenure", "jobs", "list", "--json"))
    assert [(each["job"], each["state"]) for each in found] == [("shop.send_receipt", "done")] * 2


DJANGO_SETTINGS = """
SECRET_KEY = "a long random text, and not this one"
INSTALLED_APPS = ["tenure.integrations.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
USE_TZ = True
"""
DJANGO_TASKS = """
from tenure.integrations.celery import shared_task


@shared_task(name="shop.send_receipt", bind=True)
def send_receipt(self, order: int) -> str:
    return f"sent {order}"
"""
DJANGO_RUN = """
import django

django.setup()

from django.db import transaction
from shop.tasks import send_receipt

send_receipt.delay(1)
with transaction.atomic():
    send_receipt.delay(2)
    transaction.set_rollback(True)
with transaction.atomic():
    send_receipt.apply_async((3,))
"""


def renewed(message: dict) -> str:
    """The same task once more, under an id of its own."""
    id = str(uuid4())
    headers = {**message["headers"], "id": id, "root_id": id}
    return json.dumps({**message, "headers": headers, "properties": {**message["properties"], "delivery_tag": id}})
