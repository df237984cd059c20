"""Quart: settings, the application context of async jobs, the blueprint, the commands and the dashboard."""

import asyncio
import json

import pytest
import quart

from tenure import Tenure, web
from tenure.errors import SettingsError
from tenure.integrations.quart import QuartTenure, jobs_blueprint, mount_dashboard
from tests.support.browser.serving import served


@pytest.fixture
def site(scene):
    site = quart.Quart("site")
    QuartTenure(scene.app, site)
    site.register_blueprint(jobs_blueprint(scene.app, authorize=lambda request, job: True))
    return site


def test_async_jobs_run_in_a_context_of_their_own(scene, site):
    ended = []

    @site.teardown_appcontext
    async def note(error):
        ended.append(type(error).__name__)

    @scene.app.job
    async def loops():
        assert "mine" not in quart.g
        quart.g.mine = 1
        return [quart.current_app.name, quart.current_app.extensions["tenure"] is scene.app]

    @scene.app.job
    async def fails():
        raise ValueError

    made = [loops.enqueue(), loops.enqueue()]
    fails.enqueue()
    scene.work()
    assert [each.result() for each in made] == [["site", True]] * 2
    assert ended == ["NoneType", "NoneType", "ValueError"]
    assert not quart.has_app_context()


def test_a_worker_does_not_start_what_belongs_to_the_server(scene, site):
    calls = []
    site.before_serving(lambda: calls.append("serving"))

    @scene.app.job
    async def loops():
        return calls

    job = loops.enqueue()
    scene.work()
    assert job.result() == calls == []


def test_a_job_that_finds_no_application_waits_at_no_cost(scene, caplog):
    QuartTenure(scene.app)

    @scene.app.job
    async def loops(): ...

    job = loops.enqueue()
    scene.work()
    assert (job.state, job.info().attempts) == ("delayed", 0)
    assert "quart tenure work" in caplog.text


def test_the_configuration_of_the_application_sets_where_the_app_works(scene):
    site = quart.Quart("site")
    site.config["TENURE_URL"] = "memory://"
    QuartTenure(scene.app, site)
    assert scene.app.settings.url == "memory://"
    with pytest.raises(SettingsError, match="a key of its own"):
        QuartTenure(Tenure("memory://"), site)


def test_the_server_opens_the_app_and_closes_it(scene, site):
    async def serve():
        async with site.test_app() as running:
            assert scene.app._backends.place.opened
            client = running.test_client()
            return await (await client.get("/jobs/unknown")).get_json()

    scene.app.close()
    assert asyncio.run(serve())["error"] == "not_found"
    assert not scene.app._backends.place.opened


def test_the_blueprint_answers_as_the_routers_of_other_frameworks_do(scene, site, follow):
    id, dead, late = scene.add.enqueue(1, 2), scene.fail.enqueue(), scene.add.using(delay="1h").enqueue(1, 2)

    async def ask(*requests):
        client = site.test_client()
        found = [await client.open(path, method=method) for method, path in requests]
        return [(each.status_code, await each.get_json()) for each in found]

    (status, early), cancelled = asyncio.run(ask(("GET", f"/jobs/{id}/result?wait=0.01"), ("DELETE", f"/jobs/{late}")))
    assert (status, early["state"]) == (202, "ready")
    assert cancelled == (200, {"id": late, "result": "cancelled"})
    scene.work()
    done, failed, wrong = asyncio.run(
        ask(("GET", f"/jobs/{id}/result?wait=9"), ("GET", f"/jobs/{dead}/result"), ("GET", f"/jobs/{id}/result?wait=x"))
    )
    assert done == (200, {"id": id, "state": "done", "result": 3})
    assert (failed[0], failed[1]["message"]) == (409, "no luck")
    assert wrong[0] == 400


def test_events_end_with_the_job_and_with_their_client(scene, site, follow, eventually, own_threads):
    id = scene.slow.enqueue()
    site.config["RESPONSE_TIMEOUT"] = 0.001  # of other answers
    with served(site) as address:
        stream = follow(address, f"/jobs/{id}/events")
        assert stream.response.headers["content-type"] == "text/event-stream"
        assert next(iter(stream)).data["state"] == "ready"
        stream.close()
        eventually(lambda: "tenure-job-watcher" not in own_threads())
        events = iter(follow(address, f"/jobs/{id}/events"))
        assert next(events).data["state"] == "ready"
        scene.released.set()
        scene.work()
        assert list(events)[-1].data["outcome"]["result"] == "at last"
        site.config["RESPONSE_TIMEOUT"] = 60
        assert follow(address, f"/jobs/{id}/events", last_event_id="end").response.status == 204


def test_the_dashboard_is_mounted_and_ends_with_the_server(scene, site, own_threads):
    mount_dashboard(site, web.asgi(scene.app, lambda request: web.Access(user="ada", role="viewer")), "/ops/tenure")

    async def browse():
        async with site.test_app() as running:
            client = running.test_client()
            page = await client.get("/ops/tenure/queues")
            other = await client.get("/ops/tenures")
            names = own_threads()
            return page.status_code, await page.get_data(as_text=True), other.status_code, "tenure-figures" in names

    status, text, other, has_thread = asyncio.run(browse())
    assert (status, other, has_thread) == (200, 404, True)
    assert 'href="/ops/tenure/jobs' in text
    assert "tenure-figures" not in own_threads()


def test_the_group_of_commands_passes_every_command_on(scene, site):
    scene.add.enqueue(1, 2)
    runner = site.test_cli_runner()
    counted = runner.invoke(args=["tenure", "health", "--json"])
    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["queues"]["default"]["ready"] == 1
