"""Storing a batch with tags waits for the server as often as storing one without tags."""

import pytest

from tenure.backends.messages import Message
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
