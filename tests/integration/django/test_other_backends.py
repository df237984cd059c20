"""Jobs on a backend outside of Django's database wait for the commit: in the outbox, or for the callback."""

from pathlib import Path

import pytest

from tests.support.django_runs import DjangoProject

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ENQUEUE = """
from django.db import connection, transaction
from shop.jobs import pay, welcome
from shop.models import Order
from tenure.integrations.django import get_app
def ready():
    return sum(states["ready"] for states in get_app().jobs.counts().values())
def in_outbox():
    with connection.cursor() as cursor:
        return cursor.execute("SELECT count(*) FROM tenure_outbox").fetchone()[0]
try:
    with transaction.atomic():
        welcome.enqueue(user="never")
        raise KeyError
except KeyError:
    pass
with transaction.atomic():
    handle = pay.enqueue(order_id=Order.objects.create().pk)
    get_app().enqueue_many([welcome.build(user="ada"), welcome.build(user="bob")])
    before = ready()
"""


def test_a_job_for_redis_waits_in_the_outbox_and_workers_move_it(redis_url: str, tmp_path: Path) -> None:
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, {"url": redis_url})
    project.manage("migrate", "shop", "-v", "0")
    project.manage("migrate", "tenure", "-v", "0")
    assert project.python(ENQUEUE + "print(before, ready(), in_outbox())").split() == ["0", "0", "3"]
    report = project.manage("tenure", "work", "--burst", "default", "emails")
    assert "3 done" in report
    paid = "from shop.models import Order\nprint(Order.objects.filter(paid=True).count())"
    assert project.python(paid).strip() == "1"


def test_a_worker_for_another_backend_does_not_move_jobs_of_the_outbox_there(redis_url: str, tmp_path: Path) -> None:
    tenure = {"url": redis_url, "backends": {"other": f"sqlite:///{tmp_path}/other.db"}}
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, tenure)
    project.manage("migrate", "shop", "-v", "0")
    project.manage("migrate", "tenure", "-v", "0")
    project.python(ENQUEUE)
    assert "0 done" in project.manage("tenure", "work", "--burst", "default", "emails", "--url", "other")
    assert "3 done" in project.manage("tenure", "work", "--burst", "default", "emails")


def test_a_job_for_redis_is_sent_after_the_commit_if_told_so(redis_url: str, tmp_path: Path) -> None:
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, {"url": redis_url, "DEFER": "on_commit"})
    project.manage("migrate", "shop", "-v", "0")
    report = project.python(ENQUEUE + "print(before, ready(), handle.info().handler)")
    assert report.split() == ["0", "3", "shop.pay"]


def test_a_job_for_redis_is_sent_at_once_if_told_so(redis_url: str, tmp_path: Path) -> None:
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, {"url": redis_url, "DEFER": "never"})
    project.manage("migrate", "shop", "-v", "0")
    assert project.python(ENQUEUE + "print(before, ready())").split() == ["4", "4"]
