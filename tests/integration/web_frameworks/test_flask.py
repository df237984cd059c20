"""Flask: settings from its configuration, the context of jobs, the blueprint, the commands and the dashboard."""

import json
import os
import subprocess
import sys
from pathlib import Path

import flask
import pytest

from tenure import PROVIDED, Tenure, web
from tenure.errors import SettingsError
from tenure.integrations.flask import FlaskTenure, jobs_blueprint, mount_dashboard
from tests.support.waiting import WAIT_SECONDS

BIN = Path(sys.executable).parent
PROJECT = """
import asyncio
import os

import flask

from tenure import Tenure
from tenure.integrations.flask import FlaskTenure

jobs = Tenure(lanes={
    "plain": {"queues": ["plain"], "runner": "process"}, "loops": {"queues": ["loops"], "runner": "event_loop"},
    "threads": {"queues": ["threads"], "runner": "threads"},
})
tenure = FlaskTenure(jobs)
made = []


@jobs.job(queue="plain")
def plain() -> list:
    return seen()


@jobs.job(queue="loops")
async def loops() -> list:
    first = seen()
    flask.g.of_this_job = "mine"
    await asyncio.sleep(0.05)  # another job of the same loop runs meanwhile
    return [*first, flask.g.get("of_this_job")]


def seen() -> list:
    return [flask.current_app.name, flask.current_app.config["COLOUR"], sorted(flask.g), len(made)]


def create_app(colour="red"):
    web = flask.Flask("shop")
    web.config.update(COLOUR=colour, TENURE={"url": "sqlite:///from_config.db"})
    tenure.init_app(web)
    made.append(web)
    return web
"""


@pytest.fixture
def site(scene):
    site = flask.Flask("site")
    site.config["SECRET_KEY"] = "for tests"
    FlaskTenure(scene.app, site)
    site.register_blueprint(jobs_blueprint(scene.app, authorize=lambda request, job: True))
    return site


def test_sync_and_async_jobs_run_in_a_context_of_their_own(scene, site):
    ended = []
    site.teardown_appcontext(lambda error: ended.append(type(error).__name__))

    @scene.app.job
    def plain():
        assert "mine" not in flask.g
        flask.g.mine = 1
        return flask.current_app.name

    @scene.app.job
    async def loops():
        assert "mine" not in flask.g
        flask.g.mine = 1
        return flask.current_app.name

    with site.app_context():  # as that of a command; jobs do not see its `g`
        flask.g.mine = 0
        made = [each.enqueue() for each in (plain, plain, loops, loops)]
        failed = scene.fail.enqueue()
        scene.work()
        assert flask.g.mine == 0
        assert [each.result() for each in made] == ["site"] * 4
    assert failed.state == "dead"
    assert ended == ["NoneType"] * 4 + ["ValueError", "NoneType"]
    assert not flask.has_app_context()


def test_values_that_the_app_provides_are_made_inside_the_context(scene, site):
    class Connection:
        def __init__(self):
            self.name = flask.current_app.name

    scene.app.provide(Connection, Connection)

    @scene.app.job
    def read(connection: Connection = PROVIDED):
        return connection.name

    job = read.enqueue()
    scene.work()
    assert job.result() == "site"


def test_a_job_that_finds_no_application_waits_at_no_cost(scene, caplog):
    FlaskTenure(scene.app)
    job = scene.add.enqueue(1, 2)
    scene.work()
    assert (job.state, job.info().attempts) == ("delayed", 0)
    assert "flask tenure work" in caplog.text


def test_the_application_whose_context_is_active_serves_the_job(scene):
    extension = FlaskTenure(scene.app)
    first, second = flask.Flask("first"), flask.Flask("second")
    extension.init_app(first)
    extension.init_app(second)

    @scene.app.job
    def read():
        return flask.current_app.name

    def result_in(web):
        job = read.enqueue()
        with web.app_context():
            scene.work()
        return job.result()

    assert [result_in(first), result_in(second)] == ["first", "second"]
    job = read.enqueue()
    scene.work()
    assert job.result() == "second"  # outside of any context: the last one


def test_the_configuration_of_the_application_sets_where_the_app_works(tmp_path):
    app = Tenure("memory://")
    extension = FlaskTenure(app)

    def create(**config):
        web = flask.Flask("site")
        web.config.update(config)
        extension.init_app(web)
        return web.extensions["tenure"].settings

    assert create(TENURE={"url": f"sqlite:///{tmp_path}/a.db"}, TENURE_ENVIRONMENT="testing").environment == "testing"
    assert app.settings.url.endswith("a.db")
    assert create(TENURE_URL=f"sqlite:///{tmp_path}/b.db").url.endswith("b.db")
    with app, app.override("memory://"):
        assert create(TENURE_URL="sqlite:///never.db").url == "memory://"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"TENURE": {"lease": 30}}, "'lease' is read when the app is made"),
        ({"TENURE_STORES": "memory://"}, "did you mean 'store'"),
        ({"TENURE": "memory://"}, "TENURE in the configuration must be a dict"),
        ({"TENURE": {"keys": 7}}, "keys"),
    ],
)
def test_settings_that_cannot_come_from_the_configuration_are_refused(config, message):
    web = flask.Flask("site")
    web.config.update(config)
    with pytest.raises(SettingsError, match=message):
        FlaskTenure(Tenure("memory://"), web)


def test_two_apps_in_one_application_need_two_keys(scene):
    web = flask.Flask("site")
    web.config["REPORTS_URL"] = "memory://"
    FlaskTenure(scene.app, web)
    with pytest.raises(SettingsError, match="a key of its own"):
        FlaskTenure(Tenure("sqlite:///other.db"), web)
    with pytest.raises(SettingsError, match="must be a name"):
        FlaskTenure(Tenure("sqlite:///other.db"), web, key="two words")
    FlaskTenure(Tenure("sqlite:///other.db"), web, key="reports")
    assert web.extensions["tenure"] is scene.app
    assert web.extensions["reports"].settings.url == "memory://"
    assert {"tenure", "reports"} <= set(web.cli.commands)


def test_the_blueprint_answers_as_the_routers_of_other_frameworks_do(scene, site):
    client = site.test_client()
    id, dead, late = scene.add.enqueue(1, 2), scene.fail.enqueue(), scene.add.using(delay="1h").enqueue(1, 2)
    early = client.get(f"/jobs/{id}/result?wait=0.01")
    assert (early.status_code, early.headers["Retry-After"], early.json["state"]) == (202, "1", "ready")
    assert client.delete(f"/jobs/{late}").json == {"id": late, "result": "cancelled"}
    scene.work()
    assert client.get(f"/jobs/{id}").json["state"] == "done"
    assert client.get(f"/jobs/{id}/result?wait=30").json == {"id": id, "state": "done", "result": 3}
    failed = client.get(f"/jobs/{dead}/result")
    assert (failed.status_code, failed.json["error"], failed.json["message"]) == (409, "job_failed", "no luck")
    assert client.delete(f"/jobs/{id}").status_code == 409
    for wait in ("31", "-1", "nan", "x"):
        assert client.get(f"/jobs/{id}/result?wait={wait}").status_code == 400
    for unknown in ("unknown", "00000000-0000-7000-8000-000000000000"):
        for path in ("", "/result", "/events"):
            assert client.get(f"/jobs/{unknown}{path}").status_code == 404


def test_the_hook_of_the_blueprint_refuses_jobs_and_must_be_a_plain_function(scene):
    async def hook(request, job): ...

    site = flask.Flask("site")
    site.config["SECRET_KEY"] = "for tests"
    site.register_blueprint(jobs_blueprint(scene.app, authorize=lambda request, job: "user" in flask.session))
    client = site.test_client()
    id = scene.add.enqueue(1, 2)
    assert client.get(f"/jobs/{id}").status_code == 404
    with client.session_transaction() as session:
        session["user"] = "ada"
    assert client.get(f"/jobs/{id}").status_code == 200
    with pytest.raises(SettingsError, match="plain function"):
        jobs_blueprint(scene.app, authorize=hook)
    with pytest.raises(TypeError):
        jobs_blueprint(scene.app)


def test_a_hook_that_turns_out_to_be_async_shows_no_job(scene):
    async def refuse(request, job):
        return False

    site = flask.Flask("site")
    asked = []
    site.register_blueprint(
        jobs_blueprint(scene.app, authorize=lambda *about: asked.append(refuse(*about)) or asked[-1])
    )
    answer = site.test_client().get(f"/jobs/{scene.add.enqueue(1, 2)}")
    asked[0].close()
    assert answer.status_code == 500


def test_events_end_with_the_job_and_hold_a_bounded_number_of_threads(scene):
    site = flask.Flask("site")
    site.register_blueprint(jobs_blueprint(scene.app, authorize=lambda request, job: True, max_streams=1))
    client = site.test_client()
    id = scene.slow.enqueue()
    stream = client.get(f"/jobs/{id}/events", buffered=False)
    assert stream.content_type == "text/event-stream"
    chunks = stream.iter_encoded()
    assert b"event: state" in next(chunks)
    busy = client.get(f"/jobs/{id}/events")  # the browser connects again after this stream; 503 would make it give up
    assert (busy.status_code, busy.content_type) == (200, "text/event-stream")
    assert busy.data.startswith(b"retry: 2000\n\nevent: state\n")
    assert busy.data.count(b"event: ") == 1
    scene.released.set()
    with scene.working():
        text = b"".join(chunks)
    stream.close()
    stream.close()
    assert text.endswith(b"\n\n")
    last = text.strip().split(b"\n\n")[-1]
    assert last.startswith(b"event: end\nid: end\ndata: ")
    assert json.loads(last.partition(b"data: ")[2])["outcome"]["result"] == "at last"
    assert client.head(f"/jobs/{id}/events").status_code == 200
    seen = client.get(f"/jobs/{id}/events", headers={"Last-Event-ID": "end"})
    assert seen.status_code == 204
    assert b"event: end" in client.get(f"/jobs/{id}/events").data  # the place of each was given back


def test_the_dashboard_is_mounted_and_its_hook_knows_the_session(scene, site, own_threads):
    def access(request):
        user = flask.session.get("user")
        return user and web.Access(user=user, role="viewer")

    dashboard = web.wsgi(scene.app, access)
    mount_dashboard(site, dashboard)
    try:
        client = site.test_client()
        assert client.get("/tenure/").status_code == 401
        with client.session_transaction() as session:
            session["user"] = "ada"
        page = client.get("/tenure/queues", environ_overrides={"REMOTE_PORT": 43210})  # a number, as Werkzeug has it
        assert page.status_code == 200
        assert b'href="/tenure/jobs' in page.data
        assert client.get("/jobs/unknown").status_code == 404  # the application itself goes on
    finally:
        dashboard.close()
    assert "tenure-wsgi" not in own_threads()


def test_the_group_of_commands_passes_every_command_on(scene, site):
    scene.add.enqueue(1, 2)
    runner = site.test_cli_runner()
    counted = runner.invoke(args=["tenure", "health", "--json"])
    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["queues"]["default"]["ready"] == 1
    assert "Usage: flask tenure [OPTIONS] COMMAND" in runner.invoke(args=["tenure", "--help"]).output
    assert runner.invoke(args=["tenure", "no-such-command"]).exit_code == 2
    assert "FLASK_APP" not in os.environ


@pytest.mark.slow
def test_child_processes_of_flask_tenure_work_find_the_application_of_a_factory(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("TENURE_", "FLASK_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "shop.py").write_text(PROJECT)

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    enqueue = "import shop; shop.create_app(); print(shop.plain.enqueue(), shop.loops.enqueue(), shop.loops.enqueue(),"
    enqueue += " *(job.using(queue='threads').enqueue() for job in (shop.plain, shop.loops)))"
    ids = run(sys.executable, "-c", enqueue).split()
    run(BIN / "flask", "--app", "shop:create_app('blue')", "tenure", "work", "--burst")
    with Tenure(f"sqlite:///{tmp_path}/from_config.db") as app:
        found = [app.handle(id).result(0) for id in ids]
    assert found == [["shop", "blue", [], 1], ["shop", "blue", [], 1, "mine"], ["shop", "blue", [], 1, "mine"],
                     ["shop", "blue", [], 1], ["shop", "blue", [], 1, "mine"]]  # fmt: skip
