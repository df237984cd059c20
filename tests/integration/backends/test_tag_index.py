"""The index of tags: it costs no round trip of its own, and a job that is deleted leaves nothing in it."""

from contextlib import closing

import pytest
from msgspec import structs

from tenure.backends.messages import Abandon, Ack, Message
from tenure.backends.records import JobRecord
from tenure.backends.redis.connections import ServerClient
from tenure.backends.sql.mysql.connection import MysqlSession
from tenure.backends.sql.postgresql import connection as postgresql
from tenure.backends.sql.postgresql.notifications import NOTIFY
from tenure.backends.url import open_backend
from tenure.clock import SystemClock


def puts(monkeypatch, owner, name):
    """The calls of a function, without those that wake workers; they are made all the same."""
    real, calls = getattr(owner, name), []

    def counted(*args):
        if NOTIFY not in args:
            calls.append(args)
        return real(*args)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize(
    ("kind", "owner", "name"),
    [
        ("postgres", postgresql, "rows_on"),
        ("mariadb", MysqlSession, "send"),
        ("redis", ServerClient, "ask"),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_with_tags_takes_no_more_round_trips(request, monkeypatch, kind, owner, name, size):
    backend = open_backend(request.getfixturevalue(f"{kind}_url"), SystemClock())

    def put(*tags):
        prefix = "-".join(tags)
        ids = [f"{prefix}-{number}" for number in range(size)]
        before = len(calls)
        backend.put([Message(id=id, queue="mail", body=b"{}", handler="greet", tags=tags) for id in ids])
        return len(calls) - before

    backend.put([Message(id="first", queue="mail", body=b"{}", handler="greet", tags=("warm",))])
    backend.put([Message(id="second", queue="mail", body=b"{}", handler="greet")])
    calls = puts(monkeypatch, owner, name)
    assert put() == put("a", "b", "c") == 1
    assert len(backend.jobs.tagged("b", limit=9)[0]) == size
    backend.close()


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def backend(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else None
    with closing(open_backend(url or request.getfixturevalue(f"{request.param}_url"), SystemClock())) as backend:
        yield backend


def index_size(backend):
    if backend.schema is None:
        return sum(backend._client.ask("ZCARD", key) for key in backend._client.ask("KEYS", "*:tag:*"))
    tables = ("tenure_tag", "tenure_record_tag")
    return sum(backend._dialect.read(f"SELECT count(*) FROM {table}", {})[0][0] for table in tables)


def test_jobs_that_are_deleted_leave_nothing_in_the_index(backend):
    tags = ("a", "Ω", '"quoted"', "50% off")
    backend.put([Message(id=f"{n}", queue="mail", body=b"{}", handler="greet", tags=tags) for n in range(4)])
    for number in range(4):
        (lease,) = backend.lease(["mail"], limit=1, seconds=60)
        if number % 2:
            backend.ack([Ack(lease=lease)])
        else:
            backend.abandon([Abandon(lease=lease, reason="failed")])
    assert index_size(backend) == 16
    backend.dead_letters.replay(["0"])
    (lease,) = backend.lease(["mail"], limit=1, seconds=60)
    backend.abandon([Abandon(lease=lease, reason="failed")])
    assert index_size(backend) == 16
    assert backend.dead_letters.discard(["0"]) == ["0"]
    assert index_size(backend) == 12
    assert backend.dead_letters.trim(1 << 61, 9) == 1
    assert index_size(backend) == 8
    assert backend.jobs.trim("done", 1 << 61, 9) == 2
    assert index_size(backend) == 0


def test_records_that_are_deleted_leave_nothing_in_the_index(backend):
    record = JobRecord(
        id="1", queue="mail", handler="greet", name=None, state="done", priority=5, attempts=0, crashes=0, fence=1,
        enqueued_at=1, due_at=1, finished_at=2, tags=("a", "Ω"),
    )  # fmt: skip
    backend.archive.save([record, structs.replace(record, id="2", tags=())])
    backend.archive.save([structs.replace(record, fence=2, enqueued_at=5)])
    assert index_size(backend) == 2
    assert backend.archive.trim("done", 9, 9) == 2
    assert index_size(backend) == 0
