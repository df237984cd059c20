"""A server with a full disk: a put fails with a plain message, no acknowledged job is lost, and workers go on."""

import itertools
import threading
from contextlib import contextmanager

import pytest

from tenure import Tenure
from tenure.errors import BackendError
from tenure.wire.signing import new_key
from tests.integration.backends.test_sql_faults import database_on
from tests.support.servers.disk import NoDisk

KEY = new_key().dump()
LARGE = "x" * 20_000
SERVERS = {
    "postgresql": ("160m", ["-c", "max_wal_size=32MB", "-c", "min_wal_size=32MB"]),
    "mariadb": ("128m", ["--innodb-log-file-size=8M", "--innodb-log-buffer-size=4M"]),
    "redis": ("32m", []),
    "redis-everysec": ("32m", ["--appendfsync", "everysec"]),
}


@pytest.fixture(params=SERVERS)
def server(request, own_server):
    size, more = SERVERS[request.param]
    try:
        return own_server(request.param.partition("-")[0], durable=True, more=more, disk=size)
    except NoDisk as error:
        pytest.skip(str(error))


@pytest.fixture
def app(server):
    url = database_on(server.kind.name, server.url) if server.kind.name == "mariadb" else server.url
    with Tenure(url, keys=[KEY]) as app:
        yield app


def restart_if_gone(server):
    """What an init system does: a server that cannot write what it must may end, at once or some seconds later."""
    if server.process.poll() is not None:
        server.start()
    return True


def test_a_full_disk_refuses_jobs_and_loses_none(server, app, eventually):
    ran, accepted = [], []
    job = app.job(name="note", max_retries=3)(lambda number, text: ran.append(number))

    def produce(number):
        job.enqueue(number=number, text=LARGE)
        accepted.append(number)

    with working(app):
        for number in range(20):
            produce(number)
        server.disk.fill()
        with pytest.raises(BackendError, match=r"cannot be (used|reached)|cannot write to its disk"):
            produce_on(itertools.count(100), produce)
        server.disk.free()
        eventually(lambda: restart_if_gone(server) and answers(lambda: produce(-1)))
        eventually(lambda: restart_if_gone(server) and set(accepted) <= set(ran))
        eventually(lambda: restart_if_gone(server) and answers(lambda: done(app) >= len(accepted)))
    counts = {state: count for state, count in app.backend.queues.counts()["default"].items() if count}
    assert counts == {"done": len(set(ran))}
    assert len(set(ran) - set(accepted)) <= 1  # the one that was refused may have been stored all the same


@contextmanager
def working(app):
    worker = app.worker()
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(30)


def produce_on(numbers, produce):
    for number in numbers:
        produce(number)


def done(app):
    return app.backend.queues.counts()["default"]["done"]


def answers(verb):
    """Whether the backend answered, and did not say no."""
    try:
        return verb() is not False
    except BackendError:
        return False
