"""Litestar: the plugin with its dependency, its lifespan, its routes and the dashboard."""

from uuid import uuid4

import pytest
from litestar import Litestar, Request, get
from litestar.di import NamedDependency
from litestar.testing import TestClient

from tenure import Tenure, web
from tenure.errors import SettingsError
from tenure.integrations.litestar import TenurePlugin, jobs_router
from tests.support.browser.serving import served


@pytest.fixture
def client(scene):
    scene.app.close()
    with TestClient(Litestar(plugins=[TenurePlugin(scene.app, authorize=lambda request, job: True)])) as client:
        yield client
    assert not scene.app._backends.place.opened


def test_the_plugin_provides_the_app_opens_it_and_keeps_other_lifespans(scene):
    calls = []

    @get("/")
    async def read(request: Request, tenure: NamedDependency[Tenure]) -> list[bool]:
        return [tenure is scene.app, request.app.state.tenure is scene.app, bool(scene.app._backends.place.opened)]

    @get("/named")
    async def named(reports: NamedDependency[Tenure]) -> bool:
        return reports is other

    other = Tenure("memory://")
    plugins = [TenurePlugin(scene.app), TenurePlugin(other, key="reports")]
    site = Litestar([read, named], plugins=plugins, on_startup=[lambda: calls.append("up")])
    scene.app.close()
    assert calls == []
    with TestClient(site) as client:
        assert client.get("/").json() == [True, True, True]
        assert client.get("/named").json() is True
        assert calls == ["up"]
    assert not scene.app._backends.place.opened
    with pytest.raises(SettingsError, match="a key of its own"):
        Litestar(plugins=[TenurePlugin(scene.app), TenurePlugin(other)])


def test_the_routes_answer_as_the_routers_of_other_frameworks_do(scene, client):
    id, dead, late = scene.add.enqueue(1, 2), scene.fail.enqueue(), scene.add.using(delay="1h").enqueue(1, 2)
    early = client.get(f"/jobs/{id}/result?wait=0.01")
    assert (early.status_code, early.headers["retry-after"], early.json()["state"]) == (202, "1", "ready")
    assert client.delete(f"/jobs/{late}").json() == {"id": late, "result": "cancelled"}
    scene.work()
    assert client.get(f"/jobs/{id}").json()["state"] == "done"
    done = client.get(f"/jobs/{id}/result?wait=30")
    assert (done.json(), done.headers["cache-control"]) == ({"id": id, "state": "done", "result": 3}, "no-store")
    failed = client.get(f"/jobs/{dead}/result")
    assert (failed.status_code, failed.json()["error"], failed.json()["message"]) == (409, "job_failed", "no luck")
    assert client.get(f"/jobs/{id}/result?wait=31").status_code == 400
    for unknown in ("unknown", str(uuid4())):
        for path in ("", "/result", "/events"):
            assert client.get(f"/jobs/{unknown}{path}").status_code == 404


def test_the_routes_and_their_models_are_in_the_openapi_document(client):
    document = client.get("/schema/openapi.json").json()
    paths = document["paths"]
    assert set(paths) == {"/jobs/{id}", "/jobs/{id}/result", "/jobs/{id}/events"}
    result = paths["/jobs/{id}/result"]["get"]
    models = {
        code: answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2].rpartition("_")[2]
        for code, answer in result["responses"].items()
    }
    assert models == {"200": "JobResult", "202": "JobStatus", "400": "JobProblem", "404": "JobProblem",
                      "409": "JobProblem", "503": "JobProblem"}  # fmt: skip
    assert [each["name"] for each in result["parameters"]] == ["id", "wait"]
    assert result["parameters"][1]["schema"] == {"type": "number", "minimum": 0.0, "maximum": 30.0, "default": 0}
    assert set(document["components"]["schemas"]["JobProblem"]["properties"]) >= {"error", "message", "state"}
    assert {"200", "202", "404", "409", "503"} <= set(paths["/jobs/{id}"]["delete"]["responses"])
    events = paths["/jobs/{id}/events"]["get"]["responses"]
    assert list(events["200"]["content"]) == ["text/event-stream"]
    assert "content" not in events["204"]


def test_a_hook_that_refuses_hides_the_job(scene):
    async def nobody(request, job):
        return request.headers.get("user") == "ada"

    id = scene.add.enqueue(1, 2)
    with TestClient(Litestar([jobs_router(scene.app, authorize=nobody, path="/mine")])) as client:
        assert client.get(f"/mine/{id}").status_code == 404
        assert client.get(f"/mine/{id}", headers={"user": "ada"}).status_code == 200


def test_events_end_with_the_job_and_with_their_client(scene, follow, eventually, own_threads):
    id, ended = scene.slow.enqueue(), scene.add.enqueue(1, 2)
    site = Litestar(plugins=[TenurePlugin(scene.app, authorize=lambda request, job: True)])
    with served(site) as address:
        stream = follow(address, f"/jobs/{ended}/events")
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert next(iter(stream)).name == "state"
        stream.close()
        eventually(lambda: "tenure-job-watcher" not in own_threads())
        events = iter(follow(address, f"/jobs/{id}/events"))
        assert next(events).data["state"] == "ready"
        scene.released.set()
        scene.work()
        assert list(events)[-1].data["outcome"]["result"] == "at last"
        again = follow(address, f"/jobs/{id}/events", last_event_id="end")
        assert again.response.status == 204


def test_the_dashboard_is_mounted_and_ends_with_the_site(scene, own_threads):
    dashboard = web.asgi(scene.app, lambda request: web.Access(user="ada", role="viewer"))
    with TestClient(Litestar(plugins=[TenurePlugin(scene.app, dashboard=dashboard)])) as client:
        page = client.get("/tenure/queues")
        assert page.status_code == 200
        assert 'href="/tenure/jobs' in page.text
        assert "tenure-figures" in own_threads()
    assert "tenure-figures" not in own_threads()
