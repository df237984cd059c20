"""RQ, Huey, Dramatiq, APScheduler, django-q2 and daycry/jobs beside Tenure: every job runs exactly once."""

import json
import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenure import Tenure
from tests.support.docs_pages import ROOT, blocks
from tests.support.migration import Migration
from tests.support.waiting import STOP_SECONDS, eventually

pytestmark = pytest.mark.slow


def test_rq_is_drained_beside_tenure(migration: Callable[[str], Migration]) -> None:
    pytest.importorskip("rq")
    shop = migration("rq")
    shop.run(shop.old, "python", "orders.py")
    assert shop.run(shop.old, "python", "left.py").startswith("default: 2 waiting, 1 scheduled")
    shop.run(shop.new, "python", "orders.py")  # the producers are switched

    worker = shop.start(shop.old, "rq", "worker", "--with-scheduler", "--quiet", "--url", shop.redis)
    eventually(lambda: shop.receipts(shop.old).total() == 3)
    eventually(lambda: shop.run(shop.old, "python", "left.py") == EMPTY_RQ)
    shop.stop(worker)
    with Tenure(shop.url) as app:
        app.jobs.reschedule([each.id for each in app.jobs.find(state="delayed")])
    shop.work()

    assert shop.receipts(shop.old) == shop.receipts(shop.new) == {"receipt 7": 1, "receipt 13": 1, "receipt 8": 1}


def test_huey_is_drained_beside_tenure(migration: Callable[[str], Migration]) -> None:
    pytest.importorskip("huey")
    shop = migration("huey")
    shop.run(shop.old, "python", "orders.py")
    assert (
        shop.run(shop.old, "python", "left.py") == "3 waiting, 0 scheduled\n"
    )  # the consumer sorts out what is delayed
    shop.run(shop.new, "python", "orders.py")

    consumer = shop.start(shop.old, "huey_consumer", "shop.huey", "--no-periodic", "--quiet", "--delay", "0.1")
    eventually(lambda: shop.receipts(shop.old).total() == 3)
    left = shop.run(shop.old, "python", "left.py")
    consumer.send_signal(signal.SIGINT)
    consumer.wait(STOP_SECONDS)
    with Tenure(shop.url) as app:
        app.jobs.reschedule([each.id for each in app.jobs.find(state="delayed")])
    shop.work()

    assert left == "0 waiting, 0 scheduled\n"
    assert shop.receipts(shop.old) == shop.receipts(shop.new) == {"receipt 7": 1, "receipt 13": 1, "receipt 8": 1}


def test_dramatiq_is_drained_beside_tenure(migration: Callable[[str], Migration]) -> None:
    redis = pytest.importorskip("redis")
    pytest.importorskip("dramatiq")
    shop = migration("dramatiq")
    shop.run(shop.old, "python", "orders.py")
    worker = shop.start(shop.old, "dramatiq", "shop", "--processes", "1", "--threads", "1")
    eventually(lambda: shop.receipts(shop.old).total() == 2)
    shop.run(shop.new, "python", "orders.py")
    shop.stop(worker)
    shop.run(shop.old, "python", "orders.py")  # a late producer of Dramatiq

    report = shop.run(shop.new, "python", "move.py")
    eventually(lambda: (shop.work(), shop.receipts(shop.new).total() == 4)[1])  # until the retries are due too

    assert report == "4 moved, 0 held by workers of Dramatiq\n"
    assert shop.receipts(shop.old) == {"receipt 7": 1, "receipt 13": 1}
    assert shop.receipts(shop.new) == {"receipt 7": 2, "receipt 13": 2}
    with redis.Redis.from_url(shop.redis) as client:
        assert list(client.scan_iter("dramatiq:default*")) == []
    with Tenure(shop.url) as app:
        assert len(list(app.jobs.find(state="delayed"))) == 3  # one of Tenure and two that Dramatiq had delayed


def test_the_plans_of_apscheduler_move_to_tenure(migration: Callable[[str], Migration]) -> None:
    pytest.importorskip("apscheduler")
    shop = migration("apscheduler")
    scheduler = shop.start(shop.old, "python", "-c", "import shop; shop.main()")
    eventually(lambda: shop.receipts(shop.old) == {"receipt 7": 1})
    shop.stop(scheduler)

    exported = shop.run(shop.old, "python", "export.py")

    assert exported == printed("apscheduler")
    assert run_lines(shop, exported) == {"nightly": "30 2 * * mon-fri", "stock": "@every 10m"}
    assert shop.receipts(shop.old) == {"receipt 7": 1}


def test_the_export_of_apscheduler_keeps_days_and_leaves_the_rest_to_the_user(
    migration: Callable[[str], Migration],
) -> None:
    pytest.importorskip("apscheduler")
    shop = migration("apscheduler")
    shop.run(shop.old, "python", "-c", PLANS_OF_APSCHEDULER)

    lines = shop.run(shop.old, "python", "export.py")

    assert [line.split()[:3] for line in lines.splitlines() if line.startswith("#")] == [
        ["#", "by", "hand:"],
        ["#", "by", "hand:"],
        ["#", "by", "hand:"],
        ["#", "paused:", "paused"],
    ]
    assert {"weekend": "0 4 * * sat-7", "often": "*/5 * * * *"}.items() <= run_lines(shop, lines, []).items()


def test_the_export_of_django_q2_leaves_out_what_has_run_and_names_what_has_no_name(
    migration: Callable[[str], Migration],
) -> None:
    pytest.importorskip("django_q")
    shop = migration("django-q2")
    shop.run(shop.old, "python", "-W", "ignore", "-m", "django", "migrate", "--verbosity", "0")
    shop.run(shop.old, "python", "-W", "ignore", "-c", SCHEDULES_OF_DJANGO_Q2)

    lines = shop.run(shop.old, "python", "export.py")

    assert [line.split()[4] for line in lines.splitlines() if line.startswith("#")] == ["hook", "limited", "long-month"]
    assert run_lines(shop, lines, []) == {"report-1": "5 7 * * *", "weekly": "5 7 * * Sat"}


def test_django_q2_is_drained_beside_tenure(migration: Callable[[str], Migration]) -> None:
    pytest.importorskip("django_q")
    shop = migration("django-q2")
    shop.run(shop.old, "python", "-W", "ignore", "-m", "django", "migrate", "--verbosity", "0")
    shop.run(shop.old, "python", "orders.py")
    assert shop.run(shop.old, "python", "left.py") == "2 waiting\n"
    shop.run(shop.new, "python", "orders.py")

    exported = shop.run(shop.old, "python", "export.py")
    shop.run(shop.old, "python", "-c", DELETE_SCHEDULES)
    cluster = shop.start(shop.old, "python", "-m", "django", "qcluster")
    eventually(lambda: shop.receipts(shop.old).total() == 2)
    eventually(lambda: shop.run(shop.old, "python", "left.py") == "0 waiting\n")
    shop.stop(cluster)
    shop.work()

    assert exported == printed("django-q2")
    assert run_lines(shop, exported) == {"nightly": "30 2 * * 1-5", "stock": "@every 10m"}
    assert shop.receipts(shop.old) == shop.receipts(shop.new) == {"receipt 7": 1, "receipt 13": 1}


def test_rows_of_daycry_jobs_move_to_tenure_once(migration: Callable[[str], Migration]) -> None:
    shop = migration("daycry-jobs")
    old = sqlite3.connect(shop.new / "daycry.db")
    old.execute(
        "CREATE TABLE queues (id INTEGER PRIMARY KEY, identifier TEXT, queue TEXT, payload TEXT, priority INTEGER, "
        "schedule TEXT, status TEXT, attempts INTEGER, available_at TEXT)"
    )
    for number, (schedule, status) in enumerate(
        [("2026-01-01 09:00:00", "pending"), ("2031-03-01 10:00:00", "pending"), ("2026-01-01 09:00:00", "failed")]
    ):
        envelope = {
            "job": "invoice", "payload": {"order": number}, "queue": "invoices", "priority": 1, "maxRetries": 3,
            "attempts": 0, "name": None, "identifier": f"{number:016x}", "idempotencyKey": None,
            "schedule": schedule, "_sig": "00",
        }  # fmt: skip
        row = (f"{number:016x}", "invoices", json.dumps(envelope), 1, schedule, status, 1)
        old.execute("INSERT INTO queues VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
    old.commit()

    first = shop.run(shop.new, "python", "move.py")
    old.execute("UPDATE queues SET status = 'pending' WHERE status = 'completed'")  # as if it was killed before that
    old.commit()
    second = shop.run(shop.new, "python", "move.py")
    shop.run(shop.new, "tenure", "--app", "shop:app", "work", "invoices", "--burst", "--quiet")

    assert first == second == "2 moved\n"
    with Tenure(shop.url) as app:
        done, delayed = list(app.jobs.find(state="done")), list(app.jobs.find(state="delayed"))
        assert [(each.id, each.runs) for each in done] == [("0" * 16, 1)]
        assert app.handle(done[0].id, type=str).result(timeout=0) == "invoice 0, attempt 1"
        assert [(each.priority, str(each.due_at)) for each in delayed] == [(8, "2031-03-01 09:00:00+00:00")]
    old.close()


PLANS_OF_APSCHEDULER = """
import shop
shop.scheduler.start(paused=True)
add = shop.scheduler.add_job
add(shop.report, "cron", day_of_week="5-6", hour=4, args=["x"], id="weekend")
add(shop.report, "cron", minute="*/5", args=["x"], id="often")
add(shop.report, "cron", day_of_week="*/2", args=["x"], id="every second day of the week")
add(shop.report, "cron", day="last", args=["x"], id="last")
add(shop.report, "cron", hour=1, jitter=120, args=["x"], id="jitter")
add(shop.report, "interval", minutes=1, args=["x"], id="paused")
shop.scheduler.pause_job("paused")
shop.scheduler.shutdown()
"""
SCHEDULES_OF_DJANGO_Q2 = """
import django
django.setup()
from datetime import UTC, datetime
from django_q.models import Schedule
from django_q.tasks import schedule
due = datetime(2026, 12, 5, 7, 5, tzinfo=UTC)
schedule("shop.report", "x", schedule_type="D", next_run=due)
schedule("shop.report", "x", schedule_type="W", name="weekly", next_run=due)
schedule("shop.report", "x", schedule_type="O", name="has-run", repeats=0, next_run=due)
schedule("shop.report", "x", schedule_type="D", name="limited", repeats=3, next_run=due)
schedule("shop.report", "x", schedule_type="H", name="hook", hook="shop.report", next_run=due)
schedule("shop.report", "x", schedule_type="M", name="long-month", next_run=due.replace(day=31))
"""
DELETE_SCHEDULES = "import django; django.setup(); import django_q.models as q; q.Schedule.objects.all().delete()"
EMPTY_RQ = "default: 0 waiting, 0 scheduled, 0 deferred, 0 running\n"


def printed(system: str) -> str:
    """What the page says that its export prints."""
    page = ROOT / "docs" / "how-to" / "migrate" / f"from-{system}.md"
    return next(each.text for each in blocks(page) if each.language == "text")


LATER = ["2031-03-01 09:00:00+00:00"]


def run_lines(shop: Migration, lines: str, delayed: Sequence[str] = LATER) -> dict[str, str]:
    """Run exported lines in an app with the jobs of the page; the expressions of the schedules by name."""
    code = "from tenure import Tenure\n\napp = Tenure()\n"
    for name, argument in (("send_receipt", "order: int"), ("report", "kind: str")):
        code += f"\n\n@app.job\ndef {name}({argument}) -> None: ...\n"
    code += f"\n\n{lines}\nfor each in app.schedules.all():\n    print(each.name, each.expression, sep='=')\n"
    Path(shop.new / "lines.py").write_text(code)
    shown = shop.run(shop.new, "python", "lines.py", environment={"TENURE_URL": "sqlite:///lines.db"})
    with Tenure(f"sqlite:///{shop.new}/lines.db") as app:
        assert [str(each.due_at) for each in app.jobs.find(state="delayed")] == list(delayed)
    return dict(line.split("=", 1) for line in shown.splitlines())
