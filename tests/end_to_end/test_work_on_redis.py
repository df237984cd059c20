"""A real worker on a Redis server that is killed and started again."""

import os
import signal
import subprocess
import sys
import time

import pytest
import redis

from tenure import Tenure
from tenure.wire.signing import new_key
from tests.support.waiting import eventually

SHOP = """
from tenure import Tenure

app = Tenure()


@app.job
def note(number: int) -> int:
    return number
"""


@pytest.fixture
def server(own_server):
    return own_server("redis", durable=True)


@pytest.fixture
def app(server, monkeypatch):
    monkeypatch.setenv("TENURE_URL", f"{server.url}?timeout=20")
    monkeypatch.setenv("TENURE_KEYS", new_key().dump())
    with Tenure() as app:
        app.job(name="note")(lambda number: number)
        yield app


@pytest.fixture
def worker(app, tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "tenure", "--app", "shop:app", "work", "--runner", "process", "--concurrency", "2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ}, stdout=log, stderr=log)
    yield process
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    finally:
        process.kill()


def wait_for_done(app, count):
    give_up = time.monotonic() + 60
    while app.backend.queues.counts().get("default", {}).get("done", 0) < count:
        assert time.monotonic() < give_up, app.backend.queues.counts()
        time.sleep(0.05)


@pytest.mark.slow
def test_a_worker_outlives_its_server_and_goes_on_when_it_is_back(server, app, worker):
    app.enqueue_many(app.define("note", {"number": number}).build() for number in range(50))
    wait_for_done(app, 50)
    for round in (1, 2):
        server.kill()
        time.sleep(1)  # so that the worker meets the server's absence
        server.start()
        app.enqueue_many(app.define("note", {"number": number}).build() for number in range(50))
        wait_for_done(app, 50 + 50 * round)
    assert worker.poll() is None
    assert app.backend.queues.counts()["default"]["dead"] == 0


@pytest.mark.slow
def test_a_worker_that_starts_while_its_server_is_down_waits_and_joins(server, app, request, tmp_path):
    id = app.define("note", {"number": 1}).dispatch()
    server.kill()
    worker = request.getfixturevalue("worker")
    log = tmp_path / "log"
    eventually(lambda: "waits for it" in log.read_text() or worker.poll() is not None)
    assert worker.poll() is None, log.read_text()
    server.start()
    wait_for_done(app, 1)
    assert app.backend.jobs.find(id).output == "1"


@pytest.mark.slow
def test_a_worker_on_a_flushed_server_goes_on_with_what_is_new(server, app, worker):
    app.enqueue_many(app.define("note", {"number": number}).build() for number in range(10))
    wait_for_done(app, 10)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    app.enqueue_many(app.define("note", {"number": number}).build() for number in range(10))
    wait_for_done(app, 10)
    assert worker.poll() is None
