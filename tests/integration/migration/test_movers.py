"""What waits in Redis moves to Tenure once, whatever happens; what cannot move stays with its old system."""

import base64
import json
import os
import signal
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tenure import Context, Tenure
from tenure.errors import BackendUnavailable, SettingsError
from tenure.integrations import celery as celery_adapter
from tenure.integrations.moved_messages import OldList
from tenure.wire.signing import new_key

redis = pytest.importorskip("redis")

LATER = datetime(2031, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def ran():
    """The orders of the jobs that ran."""
    return []


@pytest.fixture
def send(app, ran):
    @app.job(name="shop.send", max_retries=3)
    def send(order: int, copy: bool = False) -> int:
        ran.append(order)
        return order

    return send


@pytest.fixture
def old_celery(redis_url, prefix):
    """A real Celery on this Redis, whose keys begin with the prefix."""
    celery = pytest.importorskip("celery")
    url = urlsplit(redis_url)._replace(query="").geturl()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Celery and of its libraries
        app = celery.Celery("shop", broker=url, set_as_current=False, fixups=set())
        app.conf.broker_transport_options = {"global_keyprefix": prefix}
        app.conf.task_ignore_result = True
        yield app
        app.close()


@pytest.fixture
def move(app, send, client, prefix):
    def run(client: Any = client, **options: Any) -> celery_adapter.MoveReport:
        return celery_adapter.move_waiting(
            app, client, {"celery": "default"}, {"shop.send": send}, prefix=prefix, **options
        )

    return run


def moved(app: Tenure) -> list[Any]:
    return sorted(app.jobs.find(), key=lambda job: job.enqueued_at)


def test_tasks_of_celery_move_in_their_order_with_their_ids(app, move, ran, old_celery, client, prefix, run_within):
    ids = [old_celery.send_task("shop.send", args=[number]).id for number in range(250)]

    report = move()

    assert (report.moved, report.left, report.held) == (ids, [], 0)
    assert client.keys(f"{prefix}*celery*tenure*") == []
    assert client.llen(f"{prefix}celery") == 0
    run_within(app.worker(burst=True))
    assert ran == list(range(250))
    assert [app.result(id) for id in ids] == ran


def test_the_time_the_limit_and_the_retries_of_a_task_are_kept(app, move, old_celery, send):
    sent = {"args": [1], "kwargs": {"copy": True}}
    ids = [
        old_celery.send_task("shop.send", **sent, eta=LATER, expires=LATER + timedelta(hours=1)).id,
        old_celery.send_task("shop.send", **sent, priority=9, time_limit=30).id,
        old_celery.send_task("shop.send", **sent, retries=2).id,
    ]

    report = move(highest_priority=0)

    assert set(report.moved) == set(ids)
    later, last, retried = (app.handle(id).info() for id in ids)
    assert (later.state, later.due_at, later.payload) == ("delayed", LATER, {"order": 1, "copy": True})
    assert (last.priority, retried.priority) == (0, 9)


def test_queues_of_priorities_with_another_separator_are_moved_too(move, old_celery, client, prefix):
    old_celery.conf.broker_transport_options |= {"priority_steps": list(range(10)), "sep": ":"}
    ids = [old_celery.send_task("shop.send", args=[1], priority=priority).id for priority in (3, 0)]

    report = move(separator=":")

    assert set(report.moved) == set(ids)
    assert client.keys(f"{prefix}celery*") == []


def test_times_without_a_zone_are_utc_as_in_celery(app, move, old_celery):
    eta, expires = datetime(2031, 3, 1, 9), datetime(2031, 3, 1, 10)
    old_celery.conf.timezone = "Europe/Madrid"
    id = old_celery.send_task("shop.send", args=[1], eta=eta, expires=expires).id

    report = move()

    assert (report.moved, report.left) == ([id], [])
    assert app.handle(id).info().due_at == LATER


def test_the_limits_of_a_moved_task_hold_when_it_runs(app, old_celery, client, prefix, run_within):
    seen = {}

    @app.job(name="shop.look", max_retries=3)
    def look(ctx: Context) -> None:
        seen[ctx.id] = (ctx.max_retries, ctx.time_left is not None)

    plain = old_celery.send_task("shop.look").id
    limited = old_celery.send_task("shop.look", retries=2, time_limit=600).id
    expired = old_celery.send_task("shop.look", expires=datetime(2026, 1, 1, tzinfo=UTC)).id
    celery_adapter.move_waiting(app, client, {"celery": "default"}, {"shop.look": look}, prefix=prefix)
    run_within(app.worker(burst=True))

    assert seen == {plain: (3, False), limited: (1, True)}
    assert app.handle(expired).state == "expired"


def test_a_backend_that_cannot_be_opened_leaves_the_tasks_with_celery(old_celery, client, prefix):
    old_celery.send_task("shop.send", args=[1])

    with Tenure("redis://127.0.0.1:1", keys=[new_key().dump()]) as app:

        @app.job(name="shop.send")
        def send(order: int) -> None: ...

        with pytest.raises(BackendUnavailable):
            celery_adapter.move_waiting(app, client, {"celery": "default"}, {"shop.send": send}, prefix=prefix)

    assert client.llen(f"{prefix}celery") == 1


def test_a_message_that_another_mover_has_settled_is_not_given_back(client, prefix):
    old = OldList(f"{prefix}celery", "RIGHT")

    old.give_back(client, [b"message"])

    assert client.llen(old.key) == 0


def test_a_task_that_was_moved_is_not_moved_again(app, move, old_celery, client, prefix, run_within):
    old_celery.send_task("shop.send", args=[1])
    raw = client.lindex(f"{prefix}celery", 0)
    move()
    run_within(app.worker(burst=True))
    client.lpush(f"{prefix}celery", raw)

    report = move()

    assert len(report.moved) == 1
    assert run_within(app.worker(burst=True)).total() == 0


def test_what_cannot_move_stays_in_the_queue_in_its_order(app, move, old_celery, client, prefix):
    pytest.importorskip("celery")
    from celery import chain, group

    key, names = f"{prefix}celery", {"args": [1]}
    add = old_celery.signature("shop.send", args=[1], immutable=True)
    client.lpush(key, b"no message")
    old_celery.send_task("shop.other", **names)
    old_celery.send_task("shop.send", args=["text"])
    old_celery.send_task("shop.send", args=[1, True, 3])
    old_celery.send_task("shop.send", **names, link=add)
    old_celery.send_task("shop.send", **names, time_limit=30, soft_time_limit=20)
    chain(add, add).apply_async()
    group(add).apply_async()
    old_celery.send_task("shop.send", **names, serializer="pickle")
    good = old_celery.send_task("shop.send", **names).id
    before = client.lrange(key, 0, -1)

    report = move()

    assert report.moved == [good]
    assert client.lrange(key, 0, -1) == before[1:]
    assert [left.reason.partition(";")[0][:40] for left in report.left] == [
        "it is no message of Celery's task protoc",
        "no job is given for the task 'shop.other",
        "the payload does not fit its handler: Ex",
        "handler 'shop.send' was given the wrong ",
        "it belongs to a group, a chord or a chai",
        "shop.send has both time_limit=30 and sof",
        "it belongs to a group, a chord or a chai",
        "it belongs to a group, a chord or a chai",
        "the body is 'application/x-python-serial",
    ]
    assert move().moved == []


@pytest.mark.parametrize(
    "broken",
    [
        {"headers": {"id": "a", "task": "shop.send", "eta": 7}},
        {"headers": {"id": "a", "task": "shop.send", "timelimit": "text"}},
        {"headers": {"id": "a", "task": "shop.send", "retries": "many"}},
        {"headers": {"id": "", "task": "shop.send"}},
        {"headers": {"id": "a" * 999, "task": "shop.send"}},
        {"headers": ["id"]},
        {"properties": None},
        {"body": "not base64"},
        {"body": base64.b64encode(b"[" * 100_000).decode()},
    ],
)
def test_a_broken_message_holds_up_no_other(move, old_celery, client, prefix, broken):
    key, good = f"{prefix}celery", old_celery.send_task("shop.send", args=[1]).id
    client.rpush(key, bad := json.dumps({**json.loads(client.lindex(key, 0)), **broken}))

    report = move()

    assert (report.moved, len(report.left)) == ([good], 1)
    assert client.lrange(key, 0, -1) == [bad.encode()]


def test_nothing_is_unpickled(app, move, client, prefix):
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.kill, (os.getpid(), signal.SIGKILL)

    import pickle

    body = base64.b64encode(pickle.dumps([[Bomb()], {}, {}])).decode()
    for kind in ("application/x-python-serialize", "application/json"):
        message = {
            "body": body, "content-type": kind, "headers": {"id": "a", "task": "shop.send"},
            "properties": {"body_encoding": "base64"},
        }  # fmt: skip
        client.lpush(f"{prefix}celery", json.dumps(message))

    assert len(move().left) == 2


def test_tasks_whose_storing_failed_wait_for_the_next_run_because_they_may_be_stored(
    app, move, old_celery, client, prefix, monkeypatch, run_within
):
    for number in range(3):
        old_celery.send_task("shop.send", args=[number])
    put = app.backend.put

    def store_and_lose_the_answer(messages: Any) -> None:
        put(messages)
        raise BackendUnavailable("the connection is lost")

    with monkeypatch.context() as outage:
        outage.setattr(app.backend, "put", store_and_lose_the_answer)
        with pytest.raises(BackendUnavailable):
            move()

    assert client.llen(f"{prefix}celery") == 0  # no worker of Celery may run them now
    assert len(move().moved) == 3
    assert run_within(app.worker(burst=True)).total() == 3


def test_an_app_with_a_wrong_setting_takes_no_task(old_celery, redis_url, client, prefix):
    old_celery.send_task("shop.send", args=[1])

    with Tenure(redis_url, keys=["a:too-short"]) as app:

        @app.job(name="shop.send")
        def send(order: int) -> None: ...

        with pytest.raises(SettingsError):
            celery_adapter.move_waiting(app, client, {"celery": "default"}, {"shop.send": send}, prefix=prefix)

    assert client.llen(f"{prefix}celery") == 1


def test_tasks_that_a_worker_of_celery_holds_are_counted(move, client, prefix):
    client.hset(f"{prefix}unacked", "tag", "message")

    assert move().held == 1


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A client of Redis that is killed before or after one of its commands."""

    def __init__(self, client: Any, commands: int, *, after: bool) -> None:
        self._client = client
        self._commands = commands
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._commands -= 1
            if self._commands == 0 and not self._after:
                raise Killed
            answer = method(*arguments, **options)
            if self._commands == 0:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("after", [False, True])
def test_a_mover_that_is_killed_at_any_step_loses_nothing(app, move, old_celery, client, prefix, after, run_within):
    sent, commands = [], 0
    while True:
        commands += 1
        sent += [old_celery.send_task("shop.send", args=[len(sent)]).id, old_celery.send_task("other").id]
        try:
            move(Mortal(client, commands, after=after))
            break
        except Killed:
            pass
    move()

    assert commands > 8
    assert {job.id for job in moved(app)} == set(sent[::2])
    assert client.llen(f"{prefix}celery") == len(sent) // 2
    assert client.llen(f"{prefix}celery:tenure-moving") == 0
    assert run_within(app.worker(burst=True)).total() == len(sent) // 2


MOVER = """
import os, signal, sys
import redis
from tenure import Tenure
from tenure.integrations.celery import move_waiting

url, database, prefix, step = sys.argv[1:]
app = Tenure(f"sqlite:///{database}")

@app.job(name="shop.send")
def send(order: int) -> int:
    return order

class Client(redis.Redis):
    def eval(self, script, *arguments):
        if step in script:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().eval(script, *arguments)

print(len(move_waiting(app, Client.from_url(url), {"celery": "default"}, {"shop.send": send}, prefix=prefix).moved))
"""


def test_a_real_kill_between_store_and_removal_runs_each_task_once(
    start, old_celery, redis_url, client, prefix, tmp_path
):
    ids = {old_celery.send_task("shop.send", args=[number]).id for number in range(5)}
    given = (urlsplit(redis_url)._replace(query="").geturl(), tmp_path / "jobs.db", prefix)
    killed = start(MOVER, *given, "LREM")
    killed.wait()
    held = client.llen(f"{prefix}celery:tenure-moving")
    second = start(MOVER, *given, "none")
    printed, errors = second.communicate()

    assert (killed.returncode, held) == (-signal.SIGKILL, 5)
    assert (printed.strip(), second.returncode) == ("5", 0), errors
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app:
        assert {job.id for job in app.jobs.find()} == ids
    assert client.llen(f"{prefix}celery:tenure-moving") == 0
