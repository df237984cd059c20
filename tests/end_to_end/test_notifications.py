"""A worker and a schedule send notifications by mail."""

import pytest

from tests.support.mail_server import MailServer

SETTINGS = """
[notifications.ops]
on = ["dead", "missed"]
mail = ["ops@example.com"]
subject = "$event: $handler$schedule"

[mail]
host = "localhost"
sender = "tenure@example.com"
security = "none"
"""
SCHEDULE = """
app.schedule("add", {"a": 1}).cron("* * * * *").named("nightly")
"""


@pytest.fixture
def box():
    box = MailServer()
    yield box
    box.stop()


@pytest.fixture
def told(tenure, box):
    (tenure.folder / "tenure.toml").write_text(SETTINGS)
    tenure.environment["TENURE_MAIL__PORT"] = str(box.port)
    return box.mails


def test_a_worker_mails_a_death_before_it_ends(tenure, told):
    tenure.enqueue("add", "--payload", '{"a": 1}')
    id = tenure.enqueue("fail")
    assert tenure("work", "--burst").returncode == 1
    mail = told.get(timeout=30)
    assert mail["Subject"] == "dead: fail"
    assert f"id: {id}\n" in mail.get_content().replace("\r\n", "\n")
    assert told.empty()


def test_a_schedule_that_missed_ticks_is_told_of(tenure, told):
    with (tenure.folder / "shop.py").open("a") as shop:
        shop.write(SCHEDULE)
    assert tenure("cron", "run", "--at", "2024-01-01T00:00Z", "--no-dry-run").returncode == 0
    assert tenure("cron", "run").returncode == 0
    mail = told.get(timeout=30)
    assert mail["Subject"] == "missed: nightly"
    assert "missed, with all before it since 2024-01-01T00:01Z" in mail.get_content()
