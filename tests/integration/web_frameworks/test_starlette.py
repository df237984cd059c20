"""Starlette: the lifespan and the routes of jobs, which are mounted."""

from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tenure.integrations.starlette import jobs_router, tenure_lifespan, tenure_of


def test_a_starlette_application_uses_the_lifespan_and_the_mounted_routes(scene):
    @asynccontextmanager
    async def own(site):
        yield {"colour": "red"}

    async def order(request):
        id = await tenure_of(request).aio.enqueue(scene.add.build(1, 2))
        return JSONResponse({"id": id, "colour": request.state.colour})

    routes = [
        Route("/orders", order, methods=["POST"]),
        Mount("/jobs", jobs_router(scene.app, authorize=lambda request, job: job.handler == scene.add.key)),
    ]
    hidden = scene.fail.enqueue()
    with TestClient(Starlette(routes=routes, lifespan=tenure_lifespan(scene.app, own))) as client:
        order = client.post("/orders").json()
        assert order["colour"] == "red"
        assert client.get(f"/jobs/{order['id']}/result").status_code == 202
        scene.work()
        assert client.get(f"/jobs/{order['id']}/result?wait=1").json()["result"] == 3
        assert client.get(f"/jobs/{order['id']}/result?wait=x").json()["error"] == "bad_request"
        events = client.get(f"/jobs/{order['id']}/events").text
        assert "event: end" in events
        assert client.get(f"/jobs/{hidden}").status_code == 404
        assert client.delete(f"/jobs/{order['id']}").json()["result"] == "too_late"
        assert client.post(f"/jobs/{order['id']}").status_code == 405


def test_the_lifespan_may_be_used_inside_another_one(scene):
    @asynccontextmanager
    async def own(site):
        async with tenure_lifespan(scene.app)(site) as state:
            yield {**state, "colour": "red"}

    async def read(request):
        return JSONResponse([request.state.tenure is scene.app, request.state.colour])

    scene.app.close()
    with TestClient(Starlette(routes=[Route("/", read)], lifespan=own)) as client:
        assert client.get("/").json() == [True, "red"]
    assert not scene.app._backends.place.opened
