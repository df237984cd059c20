"""FastAPI: the lifespan, the dependency and the router of jobs, with its test client and a real server."""

import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from tenure import Tenure, web
from tenure.errors import SettingsError
from tenure.integrations.fastapi import TenureDep, jobs_router, tenure_lifespan, tenure_named
from tenure.integrations.job_api import event_stream, watcher
from tenure.integrations.job_api.watcher import JobWatcher
from tests.support.browser.serving import served


def everyone(request, job):
    return True


@pytest.fixture
def site(scene):
    site = FastAPI(lifespan=tenure_lifespan(scene.app))
    site.include_router(jobs_router(scene.app, authorize=everyone), prefix="/api")
    return site


@pytest.fixture
def client(site):
    with TestClient(site) as client:
        yield client


def test_the_lifespan_opens_the_backend_and_closes_it(scene, site):
    scene.app.close()
    assert not scene.app._backends.place.opened
    with TestClient(site):
        assert scene.app._backends.place.opened
    assert not scene.app._backends.place.opened


def test_the_lifespan_opens_in_a_thread_and_never_blocks_the_event_loop(scene, monkeypatch):
    threads = []
    monkeypatch.setattr(Tenure, "open_backend", lambda self, *names: threads.append(threading.current_thread().name))
    monkeypatch.setattr(Tenure, "close", lambda self: threads.append(threading.current_thread().name))
    with TestClient(FastAPI(lifespan=tenure_lifespan(scene.app))):
        pass
    assert len(threads) == 2
    assert all(name.startswith("asyncio") for name in threads)


def test_the_lifespan_keeps_the_state_of_the_users_own_lifespan(scene):
    calls = []

    @asynccontextmanager
    async def own(site):
        calls.append("begin")
        yield {"answer": 42}
        calls.append("end")

    site = FastAPI(lifespan=tenure_lifespan(scene.app, own))

    @site.get("/")
    async def read(request: Request, tenure: TenureDep):
        return {"answer": request.state.answer, "same": tenure is scene.app is request.app.state.tenure}

    with TestClient(site) as client:
        assert client.get("/").json() == {"answer": 42, "same": True}
        assert calls == ["begin"]
    assert calls == ["begin", "end"]


def test_a_lifespan_that_fails_at_the_end_still_closes_the_app(scene):
    @asynccontextmanager
    async def own(site):
        yield
        raise RuntimeError("at the end")

    with pytest.raises(RuntimeError, match="at the end"), TestClient(FastAPI(lifespan=tenure_lifespan(scene.app, own))):
        pass
    assert not scene.app._backends.place.opened


def test_a_server_that_is_down_does_not_keep_the_site_from_starting(caplog):
    app = Tenure("redis://127.0.0.1:1/0", keys=("a:" + "A" * 43,))
    site = FastAPI(lifespan=tenure_lifespan(app))
    site.include_router(jobs_router(app, authorize=everyone))
    with TestClient(site) as client:
        answer = client.get(f"/jobs/{uuid4()}")
    assert "it will be opened at its first use" in caplog.text
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_two_apps_need_two_keys(scene):
    with Tenure("memory://") as other:
        both = tenure_lifespan(scene.app, tenure_lifespan(other, key="reports"))
        site = FastAPI(lifespan=both)

        @site.get("/")
        async def read(first: TenureDep, second: Tenure = Depends(tenure_named("reports"))):  # noqa: B008
            return [first is scene.app, second is other]

        with TestClient(site) as client:
            assert client.get("/").json() == [True, True]
        same = FastAPI(lifespan=tenure_lifespan(scene.app, tenure_lifespan(other)))
        with pytest.raises(SettingsError, match="a key of its own"), TestClient(same):
            pass


def test_the_dependency_without_the_lifespan_says_what_is_missing(scene):
    site = FastAPI()

    @site.get("/")
    async def read(tenure: TenureDep): ...

    with pytest.raises(SettingsError, match="give tenure_lifespan"):
        TestClient(site).get("/")


def test_a_mounted_application_finds_the_app_of_the_outer_one(scene):
    inner = FastAPI()

    @inner.get("/")
    async def read(tenure: TenureDep):
        return tenure is scene.app

    outer = FastAPI(lifespan=tenure_lifespan(scene.app))
    outer.mount("/inner", inner)
    with TestClient(outer) as client:
        assert client.get("/inner/").json() is True


def test_the_end_of_the_lifespan_ends_the_threads_of_a_mounted_dashboard(scene, own_threads):
    site = FastAPI(lifespan=tenure_lifespan(scene.app))
    site.mount("/tenure", web.asgi(scene.app, lambda request: web.Access(user="ada", role="viewer")))
    with TestClient(site) as client:
        assert client.get("/tenure/").status_code == 200
        assert "tenure-figures" in own_threads()
    assert "tenure-figures" not in own_threads()


def test_status_and_result_of_a_job_until_and_after_its_end(scene, client):
    id = scene.add.enqueue(1, 2)
    waiting = client.get(f"/api/jobs/{id}")
    assert (waiting.status_code, waiting.json()["state"]) == (200, "ready")
    assert set(waiting.json()) == {
        "id", "state", "progress", "attempts", "cancel_asked", "enqueued_at", "due_at", "finished_at"
    }  # fmt: skip
    early = client.get(f"/api/jobs/{id}/result")
    assert (early.status_code, early.headers["retry-after"], early.json()["state"]) == (202, "1", "ready")
    scene.work()
    done = client.get(f"/api/jobs/{id}/result")
    assert (done.status_code, done.json()) == (200, {"id": id, "state": "done", "result": 3})
    assert done.headers["cache-control"] == "no-store"


def test_a_dead_job_answers_with_its_error_and_no_traceback(scene, client):
    id = scene.fail.enqueue()
    scene.work()
    answer = client.get(f"/api/jobs/{id}/result")
    assert answer.status_code == 409
    assert answer.json() == {
        "error": "job_failed", "message": "no luck", "id": id, "state": "dead", "error_type": "ValueError"
    }  # fmt: skip


def test_cancelled_and_expired_jobs_say_so(scene, client, eventually):
    over = datetime.now(UTC) + timedelta(seconds=0.05)
    cancelled, expired = scene.add.enqueue(1, 2), scene.add.using(expires_at=over).enqueue(1, 2)
    eventually(lambda: datetime.now(UTC) > over)
    assert client.delete(f"/api/jobs/{cancelled}").json() == {"id": cancelled, "result": "cancelled"}
    scene.work()
    answers = [client.get(f"/api/jobs/{id}/result") for id in (cancelled, expired)]
    assert [answer.status_code for answer in answers] == [409, 409]
    assert [answer.json()["error"] for answer in answers] == ["job_cancelled", "job_expired"]


def test_a_result_is_awaited_for_a_bounded_time(scene, client):
    id = scene.slow.enqueue()
    assert client.get(f"/api/jobs/{id}/result", params={"wait": 0.01}).status_code == 202
    assert client.get(f"/api/jobs/{id}/result", params={"wait": 31}).status_code == 422
    assert client.get(f"/api/jobs/{id}/result", params={"wait": "nan"}).status_code == 422
    with scene.working():
        assert scene.started.wait(60)
        threading.Timer(0.05, scene.released.set).start()
        assert client.get(f"/api/jobs/{id}/result", params={"wait": 30}).json()["result"] == "at last"


def test_the_cancellation_of_a_job_says_what_became_of_it(scene, client, eventually):
    running = scene.slow.enqueue()
    with scene.working():
        assert scene.started.wait(60)
        asked = client.delete(f"/api/jobs/{running}")
        assert (asked.status_code, asked.json()["result"]) == (202, "asked")
        scene.released.set()
        eventually(lambda: scene.app.handle(running).state in ("done", "cancelled"))
    late = client.delete(f"/api/jobs/{running}")
    assert (late.status_code, late.json()["result"]) == (409, "too_late")


@pytest.mark.parametrize(
    "id",
    ["unknown", "{uuid}", "urn:uuid:" + "0" * 32, "0" * 32, "1297a9a5-b40e-4b03-90d8-6b4ed8765826", "%00", "..%2F"],
)
def test_an_unknown_id_and_a_text_that_is_none_are_not_found(client, id):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/result"), ("GET", "/events")):
        assert client.request(method, f"/api/jobs/{id}{path}").status_code == 404


def test_a_text_that_no_backend_could_have_made_is_not_looked_up(scene, client, monkeypatch):
    asked, jobs = [], type(scene.app.jobs)
    monkeypatch.setattr(jobs, "get", lambda self, id: asked.append(id))
    id = uuid4()
    for text in ("unknown", id.hex, str(id).upper(), f"urn:uuid:{id}", f"{{{id}}}"):
        assert client.get(f"/api/jobs/{text}").status_code == 404
    assert asked == []


def test_a_job_that_the_hook_refuses_looks_like_an_unknown_one(scene):
    seen = []

    async def own_jobs(request, job):
        seen.append((request.method, job.handler, job.meta))
        return job.meta.get("user") == request.headers["user"]

    site = FastAPI(lifespan=tenure_lifespan(scene.app))
    site.include_router(jobs_router(scene.app, authorize=own_jobs))
    id = scene.add.using(meta={"user": "ada"}).enqueue(1, 2)
    with TestClient(site) as client:
        for method, path in (("GET", ""), ("GET", "/result"), ("GET", "/events"), ("DELETE", "")):
            refused = client.request(method, f"/jobs/{id}{path}", headers={"user": "bob"})
            unknown = client.request(method, f"/jobs/{uuid4()}{path}", headers={"user": "bob"})
            assert (refused.status_code, refused.content) == (404, unknown.content)
        assert client.get(f"/jobs/{id}", headers={"user": "ada"}).status_code == 200
    assert scene.app.handle(id).state == "ready"
    assert seen[3] == ("DELETE", scene.add.key, {"user": "ada"})


def test_a_plain_hook_runs_in_a_thread_and_may_raise_an_error_of_the_framework(scene):
    threads = []

    def signed_in(request, job):
        threads.append(threading.current_thread())
        raise HTTPException(401, "sign in")

    site = FastAPI()
    site.include_router(jobs_router(scene.app, authorize=signed_in))
    answer = TestClient(site).get(f"/jobs/{scene.add.enqueue(1, 2)}")
    assert (answer.status_code, answer.json()) == (401, {"detail": "sign in"})
    assert threads[0].name.startswith("asyncio")


def test_a_router_without_a_hook_is_refused(scene):
    with pytest.raises(TypeError):
        jobs_router(scene.app)
    with pytest.raises(SettingsError, match="lambda request, job: True"):
        jobs_router(scene.app, authorize=None)


def test_the_routes_and_their_models_are_in_the_openapi_document(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/api/jobs/{id}", "/api/jobs/{id}/result", "/api/jobs/{id}/events"}
    result = paths["/api/jobs/{id}/result"]["get"]["responses"]
    models = {
        code: answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for code, answer in result.items()
        if code != "422"
    }
    assert models == {"200": "JobResult", "202": "JobStatus", "404": "JobProblem", "409": "JobProblem",
                      "503": "JobProblem"}  # fmt: skip
    events = paths["/api/jobs/{id}/events"]["get"]["responses"]["200"]
    assert list(events["content"]) == ["text/event-stream"]


def test_events_tell_state_progress_and_the_outcome(scene, site, follow):
    id = scene.slow.enqueue()
    with served(site) as address:
        stream = follow(address, f"/api/jobs/{id}/events")
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        events = iter(stream)
        first = next(events)
        assert (first.name, first.data["state"]) == ("state", "ready")
        with scene.working():
            found = next(events)
            assert (found.name, found.data["state"]) == ("state", "leased")
            if found.data["progress"] is None:  # it was read before the progress was saved
                found = next(events)
            assert found.data["progress"] == {"done": 40.0, "total": 100.0}
        rest = list(events)
        assert [event.name for event in rest] == ["end"]
        assert rest[0].data["outcome"] == {"id": id, "state": "done", "result": "at last"}
        assert rest[0].id == "end"


def test_events_of_a_job_that_has_ended_are_its_outcome(scene, site, follow):
    id = scene.fail.enqueue()
    scene.work()
    with served(site) as address:
        (only,) = follow(address, f"/api/jobs/{id}/events")
        assert (only.name, only.data["problem"]["message"]) == ("end", "no luck")
        assert only.data["status"]["state"] == "dead"
        again = follow(address, f"/api/jobs/{id}/events", last_event_id="end")
        assert again.response.status == 204  # tells a browser to stop
        assert len(list(follow(address, f"/api/jobs/{id}/events", last_event_id="unknown"))) == 1


def test_a_stream_is_given_up_when_its_client_goes_away(scene, site, follow, eventually, monkeypatch, own_threads):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.05)
    id = scene.slow.enqueue()
    with served(site) as address:
        stream = follow(address, f"/api/jobs/{id}/events")
        next(iter(stream))
        eventually(lambda: "tenure-job-watcher" in own_threads())
        stream.close()
        eventually(lambda: "tenure-job-watcher" not in own_threads())


def test_heartbeats_keep_a_silent_stream_open(scene, site, follow, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.02)
    id = scene.slow.enqueue()
    with served(site) as address:
        stream = follow(address, f"/api/jobs/{id}/events")
        lines = iter(stream.response.readline, b"")
        assert next(lines) == b"retry: 2000\n"
        assert b": still here\n" in lines
        stream.close()


def test_a_stream_ends_after_a_while_so_that_its_client_is_authorised_again(scene, site, follow, monkeypatch):
    monkeypatch.setattr(event_stream, "STREAM_SECONDS", 0.05)
    id = scene.slow.enqueue()
    with served(site) as address:
        assert {event.name for event in follow(address, f"/api/jobs/{id}/events")} == {"state"}


def test_all_clients_of_a_job_share_one_reading(scene, site, follow, monkeypatch, eventually):
    readers, subscribed, jobs = [], [], type(scene.app.jobs)
    read, subscribe = jobs.get, JobWatcher.subscribe

    def counted_read(self, id):
        readers.append(threading.current_thread().name)
        return read(self, id)

    def counted_subscribe(self, *arguments):
        subscribed.append(arguments)
        return subscribe(self, *arguments)

    monkeypatch.setattr(jobs, "get", counted_read)
    monkeypatch.setattr(JobWatcher, "subscribe", counted_subscribe)
    monkeypatch.setattr(watcher, "POLL_SECONDS", 600.0)  # what remains are the first reading and the end
    id = scene.slow.enqueue()
    with served(site) as address:
        streams = [iter(follow(address, f"/api/jobs/{id}/events")) for _ in range(20)]
        for stream in streams:
            next(stream)
        eventually(lambda: len(subscribed) == 20)
        scene.released.set()
        scene.work()
        ends = [list(stream)[-1].data["outcome"]["result"] for stream in streams]
    assert ends == ["at last"] * 20
    shared = [name for name in readers if name == "tenure-job-watcher"]
    assert len(readers) - len(shared) == 20  # each client is authorised with the job as it is
    assert len(shared) <= 3


def test_many_watched_jobs_are_read_less_often_and_their_ends_come_at_once(
    scene, site, follow, monkeypatch, eventually
):
    readers, jobs = [], type(scene.app.jobs)
    read = jobs.get

    def counted_read(self, id):
        readers.append(threading.current_thread().name)
        return read(self, id)

    monkeypatch.setattr(jobs, "get", counted_read)
    monkeypatch.setattr(watcher, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "READS_PER_SECOND", 0.01)  # two jobs: one round in 200 seconds
    first, second = scene.add.enqueue(1, 2), scene.add.enqueue(3, 4)
    with served(site) as address:
        streams = [iter(follow(address, f"/api/jobs/{id}/events")) for id in (first, second)]
        for stream in streams:
            next(stream)
        eventually(lambda: readers.count("tenure-job-watcher") >= 2)
        scene.work()
        assert [list(stream)[-1].data["outcome"]["result"] for stream in streams] == [3, 7]
    assert readers.count("tenure-job-watcher") <= 6  # the first rounds, and the ends
