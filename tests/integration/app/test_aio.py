"""Async callers: calls do not block the loop, concurrent calls share round trips, each caller gets its own errors."""

import asyncio
import threading

import pytest

from tenure import JobHandle, Tenure
from tenure.backends.memory import MemoryBackend
from tenure.definition.job import Job
from tenure.errors import BackendError, BackendUnavailable, InvalidPayload, JobFailed, PartialPut, UnknownHandler
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture(params=["memory", "sqlite", "redis"])
def app(request, tmp_path):
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}
    url = urls.get(request.param, lambda: request.getfixturevalue("redis_url"))()
    with Tenure(url, environment="development") as app:
        yield app


@pytest.fixture
def add(app):
    @app.job
    def add(a: int, b: int = 0) -> int:
        return a + b

    return add


@pytest.fixture
def puts(app, monkeypatch):
    """How many messages each put was given."""
    seen = []
    put = app.backend.put
    monkeypatch.setattr(app.backend, "put", lambda messages: (seen.append(len(messages)), put(messages))[1])
    return seen


@pytest.fixture
def in_memory():
    with Tenure("memory://") as app:
        app.job(name="add")(lambda a: a)
        yield app


def refusing(app, monkeypatch, refuse):
    """Have the backend refuse puts as this says."""
    put = app.backend.put

    def put_or_refuse(messages):
        refuse(messages)
        return put(messages)

    monkeypatch.setattr(app.backend, "put", put_or_refuse)


def test_an_awaited_enqueue_returns_the_id_of_a_stored_job(app, add):
    id = asyncio.run(app.aio.enqueue(add.build(1, b=2)))
    assert app.backend.jobs.find(id).state == "ready"


def test_concurrent_enqueues_are_few_round_trips_in_their_order(app, add, puts):
    jobs = app.aio

    async def main():
        return await asyncio.gather(*(jobs.enqueue(add.build(number)) for number in range(500)))

    ids = asyncio.run(main())
    assert (len(set(ids)), sum(puts), len(puts)) == (500, 500, 1)
    assert [lease.id for lease in app.backend.lease(["default"], limit=500, seconds=60)] == ids


def test_calls_made_while_a_batch_is_under_way_share_the_next(app, add, puts, monkeypatch):
    jobs = app.aio
    begun, go_on = threading.Event(), threading.Event()
    put = app.backend.put

    def slow(messages):
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return put(messages)

    monkeypatch.setattr(app.backend, "put", slow)

    async def main():
        first = asyncio.create_task(jobs.enqueue(add.build(0)))
        assert await asyncio.to_thread(begun.wait, WAIT_SECONDS)
        others = []
        for number in range(1, 20):
            others.append(asyncio.create_task(jobs.enqueue(add.build(number))))
            await asyncio.sleep(0)  # the loop turns: it is not blocked by the put
        go_on.set()
        return await asyncio.gather(first, *others)

    assert len(set(asyncio.run(main()))) == 20
    assert puts == [1, 19]


def test_enqueue_many_returns_every_id(app, add):
    ids = asyncio.run(app.aio.enqueue_many(add.build(number) for number in range(30)))
    assert app.backend.queues.counts()["default"]["ready"] == len(set(ids)) == 30


def test_a_job_that_cannot_be_sealed_fails_its_own_caller_only(app, add):
    jobs = app.aio

    async def main():
        return await asyncio.gather(
            jobs.enqueue(add.build(1)),
            jobs.enqueue(add.build(1).replace(payload={"a": "one"})),
            jobs.enqueue(Job(handler="nobody")),
            jobs.enqueue(add.build(2)),
            return_exceptions=True,
        )

    good, wrong, unknown, fine = asyncio.run(main())
    assert (type(wrong), type(unknown)) == (InvalidPayload, UnknownHandler)
    assert {app.backend.jobs.find(good).state, app.backend.jobs.find(fine).state} == {"ready"}


def enqueue_five(app):
    jobs = app.aio

    async def main():
        calls = [jobs.enqueue(Job(handler="add", payload={"a": number}, id=f"job-{number}")) for number in range(5)]
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(main())


def test_a_message_that_the_backend_refuses_fails_its_own_caller_only(in_memory, monkeypatch):
    def refuse(messages):
        if any(message.id == "job-3" for message in messages):
            raise BackendError("too large")

    refusing(in_memory, monkeypatch, refuse)
    answers = enqueue_five(in_memory)
    assert [type(answer) for answer in answers] == [JobHandle, JobHandle, JobHandle, BackendError, JobHandle]
    assert in_memory.backend.queues.counts()["default"]["ready"] == 4


def test_a_partial_put_fails_those_that_were_not_stored(in_memory, monkeypatch):
    def refuse(messages):
        MemoryBackend.put(in_memory.backend.inner, messages[:2])
        raise PartialPut("the second queue failed", [message.id for message in messages[:2]])

    refusing(in_memory, monkeypatch, refuse)
    assert [type(answer) for answer in enqueue_five(in_memory)] == [JobHandle, JobHandle, *[PartialPut] * 3]


def test_a_server_that_is_away_fails_every_caller_at_once(in_memory, monkeypatch):
    tries = []

    def refuse(messages):
        tries.append(len(messages))
        raise BackendUnavailable("nobody there")

    refusing(in_memory, monkeypatch, refuse)
    assert [type(answer) for answer in enqueue_five(in_memory)] == [BackendUnavailable] * 5
    assert tries == [5]


def test_on_the_sync_backend_each_job_runs_once_and_fails_its_own_caller():
    ran = []
    with Tenure("sync://") as app:

        @app.job(name="add")
        def add(a: int) -> None:
            ran.append(a)
            if a == 2:
                raise ValueError("two")

        answers = enqueue_five(app)
    assert ran == [0, 1, 2, 3, 4]
    assert [type(answer) for answer in answers] == [JobHandle, JobHandle, JobFailed, JobHandle, JobHandle]


def test_a_call_that_is_given_up_before_it_is_sent_is_not_sent(in_memory):
    jobs = in_memory.aio

    async def main():
        given_up = asyncio.create_task(jobs.enqueue(Job(handler="add", payload={"a": 1})))
        kept = asyncio.create_task(jobs.enqueue(Job(handler="add", payload={"a": 2})))
        given_up.cancel()
        return await kept

    id = asyncio.run(main())
    assert in_memory.backend.queues.counts()["default"]["ready"] == 1
    assert in_memory.backend.jobs.find(id)


def test_one_facade_serves_many_loops(in_memory):
    jobs = in_memory.aio
    ids = {asyncio.run(jobs.enqueue(Job(handler="add", payload={"a": number}))) for number in range(3)}
    assert len(ids) == 3


def test_another_backend_is_named_as_it_is_for_callers_that_block(in_memory):
    jobs = in_memory.aio
    job = Job(handler="add", payload={"a": 1})

    async def main():
        await asyncio.gather(jobs.enqueue(job), jobs.enqueue(job, "memory://other"))

    asyncio.run(main())
    assert in_memory.open_backend("memory://other").backend.queues.counts()["default"]["ready"] == 1
    assert in_memory.backend.queues.counts()["default"]["ready"] == 1
