"""Names of queues on the command line: any spelling, and a word about typos."""

import pytest

APP = """
from tenure import Tenure

app = Tenure()


@app.job(queue="reports")
def report() -> None: ...
"""


@pytest.fixture
def shop(tenure):
    (tenure.folder / "shop.py").write_text(APP)
    tenure.enqueue("report", "--queue", "Reports")
    return tenure


def test_every_command_takes_any_spelling(shop):
    assert [job["queue"] for job in shop.json("jobs", "list", "--queue", "REPORTS")] == ["reports"]
    assert shop.json("health", "--queue", "Reports")["queues"]["reports"]["ready"] == 1
    assert shop.json("queues", "pause", "Reports") == [{"queue": "reports", "paused": True}]
    assert shop.json("queues", "resume", "REPORTS") == [{"queue": "reports", "resumed": True}]
    assert "1 done" in shop("work", "--burst", "Reports:2").stdout
    assert shop.json("dead", "list", "--queue", "Reports") == []


def test_a_command_without_the_app_finds_a_queue_that_has_jobs(shop):
    found = shop.without("TENURE_APP").json("jobs", "list", "--queue", "Reports")
    assert [job["queue"] for job in found] == ["reports"]


@pytest.mark.parametrize("command", [["jobs", "list", "--queue"], ["dead", "list", "--queue"], ["work", "--burst"]])
def test_a_typo_gets_a_suggestion_and_the_command_goes_on(shop, command):
    done = shop(*command, "reprots")
    assert done.returncode == 0
    assert done.stderr.count("did you mean 'reports'?") == 1, done.stderr


@pytest.mark.parametrize(
    "command",
    [["jobs", "list", "--queue"], ["work", "--burst"], ["queues", "pause"], ["enqueue", "report", "--queue"]],
)
def test_with_strict_queues_a_typo_is_an_error(shop, command):
    done = shop(*command, "reprots", TENURE_STRICT_QUEUES="true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: no queue 'reprots' is known; did you mean 'reports'?")


def test_with_strict_queues_a_queue_that_has_jobs_can_still_be_inspected(shop):
    shop.enqueue("report", "--queue", "legacy")
    strict = {"TENURE_STRICT_QUEUES": "true"}
    assert [job["queue"] for job in shop.json("jobs", "list", "--queue", "legacy", **strict)] == ["legacy"]
    assert shop("work", "--burst", "legacy", **strict).returncode == 2
