"""`tenure --remote URL`: commands through the JSON API of a dashboard, without access to the backend."""

import json
from hashlib import sha256

import pytest
from click.testing import CliRunner

from tenure import Tenure
from tenure.cli.main import cli
from tenure.web.mount import AsgiDashboard
from tests.support.browser.serving import served
from tests.support.dashboard_limits import raise_limits

TOKEN = "a token of a program"
TOKENS = {
    "ops": {"sha256": sha256(TOKEN.encode()).hexdigest(), "role": "admin"},
    "reader": {"sha256": sha256(b"another").hexdigest(), "role": "viewer"},
}


@pytest.fixture
def app(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Tenure(url, environment="development", dashboard={"tokens": TOKENS}) as app:

        @app.job(queue="emails")
        def send(user: int) -> int:
            return 10 // user

        app.schedule(send.build(user=1)).named("greet").daily_at("02:00", timezone="Europe/Madrid")
        for user in (0, 1, 2):
            send.enqueue(user=user)
        app.worker("emails", burst=True).run()
        app.enqueue(send.build(user=3).replace(delay=3600))
        send.enqueue(user=4)
        yield app


@pytest.fixture
def address(app, monkeypatch):
    raise_limits(monkeypatch)
    dashboard = AsgiDashboard(app)
    with served(dashboard) as address:
        yield address
    dashboard.close()


@pytest.fixture
def remote(address, monkeypatch, tmp_path):
    """Runs a command in an empty folder, with the token of an admin."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("TENURE_REMOTE_TOKEN", TOKEN)

    def run(*arguments, exit_code=0):
        done = CliRunner().invoke(cli, ["--remote", address, *arguments], prog_name="tenure")
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout) if "--json" in arguments and exit_code == 0 else done.output

    return run


def audit(app):
    return [(each.actor, each.action, each.why, each.origin) for each in app.parts().audit.page(limit=10)]


def find(app, state):
    return [job.id for job in app.jobs.find(state=state)]


def test_health_counts_jobs_and_sums_up_statistics(app, remote):
    found = remote("health", "--json")

    assert found["queues"]["emails"] == {"ready": 1, "delayed": 1, "parked": 0, "leased": 0, "dead": 1}
    assert "emails" in remote("health")


def test_jobs_are_listed_by_state_and_shown(app, remote):
    (dead,) = find(app, "dead")

    (row,) = remote("jobs", "list", "--state", "dead", "--json")
    shown = remote("jobs", "show", dead[:18], "--json")

    assert (row["id"], row["queue"], row["job"]) == (dead, "emails", "send")
    assert (shown["id"], shown["state"], shown["payload"]) == (dead, "dead", {"user": 0})
    assert "ZeroDivisionError" in remote("jobs", "show", dead)


def test_a_limit_ends_the_list_and_says_that_there_is_more(app, remote):
    app.enqueue_many(app.define("send", {"user": 7}).queue("emails").build() for _ in range(30))

    rows = remote("jobs", "list", "--state", "ready", "--limit", "28")

    assert rows.count("\temails\t") == 28
    assert "there may be more" in rows


def test_a_job_is_cancelled_with_a_reason_in_the_audit_log(app, remote):
    (id,) = find(app, "delayed")

    assert remote("jobs", "cancel", id, "--why", "not needed") == "1 cancelled\n"

    assert app.jobs.get(id).state == "cancelled"
    assert audit(app)[0] == ("ops", "jobs.cancel", "not needed", "api")


def test_a_job_is_rescheduled_and_a_dead_one_retried(app, remote):
    (delayed,), (dead,) = find(app, "delayed"), find(app, "dead")

    remote("jobs", "reschedule", delayed, "--delay", "0")
    remote("jobs", "retry", dead)

    assert {delayed, dead} <= set(find(app, "ready"))


def test_dead_letters_are_listed_replayed_and_deleted(app, remote):
    (dead,) = find(app, "dead")

    (letter,) = remote("dead", "list", "--job", "send", "--json")
    assert (letter["id"], letter["reason"]) == (dead, "retries_exhausted")
    assert remote("dead", "replay", "--queue", "emails") == "1 replayed\n"
    app.worker("emails", burst=True).run()
    assert "1 deleted" in remote("dead", "purge", "--all", "--force", "--why", "broken")
    assert find(app, "dead") == []


def test_queues_are_listed_paused_resumed_and_drained(app, remote):
    assert remote("queues", "pause", "emails", "--reason", "migration") == "emails paused\n"
    (row,) = [each for each in remote("queues", "list", "--json") if each["queue"] == "emails"]
    assert (row["ready"], row["reason"]) == (1, "migration")
    assert remote("queues", "drain", "emails") == "emails: nothing left\n"
    assert remote("queues", "resume", "emails") == "emails resumed\n"
    assert app.guards.paused("emails") == {}


def test_no_worker_is_alive(remote):
    assert remote("workers") == "no worker is alive\n"


def test_schedules_are_listed_explained_paused_resumed_and_run(app, remote):
    (row,) = remote("cron", "list", "--json")
    assert (row["name"], row["timezone"]) == ("greet", "Europe/Madrid")
    assert "Europe/Madrid" in remote("cron", "explain", "greet")
    assert len(remote("cron", "preview", "greet", "--json")) == 5
    remote("cron", "pause", "greet")
    assert "greet" in app.cron.ledger.paused()
    remote("cron", "resume", "greet")
    before = set(find(app, "ready"))
    remote("cron", "run", "--only", "greet")
    assert len(set(find(app, "ready")) - before) == 1
    assert remote("cron", "history", "greet", "--json") != []


def test_a_wrong_token_is_refused_with_advice(remote, monkeypatch):
    monkeypatch.setenv("TENURE_REMOTE_TOKEN", "guessed")

    assert "TENURE_REMOTE_TOKEN" in remote("health", exit_code=2)


def test_a_viewer_changes_nothing(app, remote, monkeypatch):
    monkeypatch.setenv("TENURE_REMOTE_TOKEN", "another")
    (id,) = find(app, "delayed")

    assert "may not do 'jobs.cancel'" in remote("jobs", "cancel", id, exit_code=2)

    assert app.jobs.get(id).state == "delayed"


def test_the_token_may_come_from_a_file(remote, monkeypatch, tmp_path):
    monkeypatch.delenv("TENURE_REMOTE_TOKEN")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("TENURE_REMOTE_TOKEN_FILE", str(tmp_path / "token"))

    assert remote("health", "--json")["queues"]


@pytest.mark.parametrize("arguments", [("doctor",), ("enqueue", "send"), ("work",)])
def test_other_commands_refuse_a_remote_dashboard(remote, arguments):
    assert "cannot use a remote dashboard" in remote(*arguments, exit_code=2)


@pytest.mark.parametrize(
    "arguments", [("jobs", "forget", "x"), ("dead", "export"), ("queues", "list", "--handlers"), ("cron", "work")]
)
def test_what_needs_the_backend_says_so(remote, arguments):
    assert "cannot be used with --remote" in remote(*arguments, exit_code=2)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://127.0.0.1", "takes the address of a dashboard"),
        ("http://ada:secret@127.0.0.1", "must not contain a password"),
        ("http://127.0.0.1:1", "does not answer"),
    ],
)
def test_a_wrong_address_is_an_error_for_people(url, message):
    done = CliRunner().invoke(cli, ["--remote", url, "health"], prog_name="tenure")

    assert done.exit_code == 2
    assert message in done.output
    assert "secret" not in done.output
