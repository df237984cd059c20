"""Async callers that wait for jobs: one thread for all of them, nothing left behind, and no loop is blocked."""

import asyncio
import gc
import os
import threading
import weakref

import pytest

from tenure import Tenure
from tenure.backends.messages import Message
from tenure.definition.job import Job
from tenure.errors import BackendUnavailable, JobFailed, JobNotFound, ResultTimeout
from tests.support.waiting import WAIT_SECONDS, eventually


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def app(request, tmp_path):
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}
    url = urls.get(request.param, lambda: request.getfixturevalue(f"{request.param}_url"))()
    with made(url) as app:
        yield app


@pytest.fixture
def in_memory():
    with made("memory://") as app:
        yield app


def made(url):
    app = Tenure(url, environment="development")
    app.job(name="twice", max_retries=0)(lambda value: value * 2)
    return app


def twice(value):
    return Job(handler="twice", payload={"value": value}, max_retries=0)


@pytest.fixture
def own_threads():
    """Lists the names of the threads that Tenure has started since the test began; others may have left some."""
    before = set(threading.enumerate())
    return lambda: sorted(
        thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("tenure-")
    )


async def work(app):
    await asyncio.to_thread(app.worker(burst=True).run)


def test_a_result_is_awaited(app):
    async def main():
        id = await app.aio.enqueue(twice(21))
        waiting = asyncio.create_task(app.aio.result(id, "60s"))
        await work(app)
        return await waiting

    assert asyncio.run(main()) == 42


def test_results_of_jobs_that_did_not_succeed_are_their_errors(app):
    async def main():
        failed, cancelled = [await app.aio.enqueue(twice(value)) for value in (None, 1)]
        assert await app.aio.cancel(cancelled) == "cancelled"
        await work(app)
        answers = await asyncio.gather(
            *(app.aio.result(id) for id in (failed, cancelled, "nobody")), return_exceptions=True
        )
        return [type(answer) for answer in answers]

    assert asyncio.run(main()) == [JobFailed, JobFailed, JobNotFound]


def test_a_job_that_does_not_end_in_time_raises_and_leaves_no_wait(app):
    async def main():
        id = await app.aio.enqueue(twice(1))
        with pytest.raises(ResultTimeout, match=r"has not ended within 0\.05 s"):
            await app.aio.result(id, 0.05)
        with pytest.raises(ResultTimeout, match="is ready and has not ended within 0 s"):
            await app.aio.result(id, 0)

    asyncio.run(main())
    assert app.waiters.get()._waits == {}


def test_a_rescheduled_job_runs_later(app):
    async def main():
        id = await app.aio.enqueue(twice(1))
        return await app.aio.reschedule(id, delay="1h"), app.backend.jobs.find(id).state

    assert asyncio.run(main()) == ("rescheduled", "delayed")


def test_aenqueue_stores_jobs_with_their_options_in_one_batch(app, monkeypatch):
    @app.job
    def add(a: int, b: int = 0) -> int:
        return a + b

    puts, put = [], app.backend.put
    monkeypatch.setattr(app.backend, "put", lambda messages: (puts.append(len(messages)), put(messages))[1])

    async def main():
        return await asyncio.gather(add.aenqueue(1, b=2), add.using(delay="1h").aenqueue(3))

    first, second = asyncio.run(main())
    assert puts == [2]
    assert [app.backend.jobs.find(id).state for id in (first, second)] == ["ready", "delayed"]


def test_ten_thousand_waits_take_one_thread_and_do_not_delay_an_enqueue(tmp_path, own_threads):
    count = 10_000
    with made(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal") as app:

        async def main():
            ids = await app.aio.enqueue_many([twice(number) for number in range(count)])
            waiting = [asyncio.create_task(app.aio.result(id)) for id in ids]
            await asyncio.to_thread(eventually, lambda: len(app.waiters.get()._waits) == count)
            threads = own_threads()
            enqueued = app.aio.enqueue(Job(handler="twice", payload={"value": 1}, delay=3600))
            await asyncio.wait_for(enqueued, WAIT_SECONDS)  # no wait ends before the worker starts
            await work(app)
            return threads, await asyncio.gather(*waiting)

        threads, results = asyncio.run(main())
        assert threads.count("tenure-waiter") == 1
        assert len(threads) <= 1 + 4, threads
        assert results == [number * 2 for number in range(count)]
        assert app.waiters.get()._waits == {}


def test_a_cancelled_wait_leaves_nothing_behind(in_memory):
    async def main():
        id = await in_memory.aio.enqueue(twice(1))
        waiting = [asyncio.create_task(in_memory.aio.result(id)) for _ in range(3)]
        await asyncio.to_thread(eventually, lambda: in_memory.waiters.get()._waits)
        for each in waiting:
            each.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 3

    asyncio.run(main())
    assert in_memory.waiters.get()._waits == {}


def test_several_loops_wait_at_once(app):
    id = app.enqueue(twice(4))
    results = []
    loops = [
        threading.Thread(target=lambda: results.append(asyncio.run(app.aio.result(id, WAIT_SECONDS)))) for _ in range(3)
    ]
    for loop in loops:
        loop.start()
    app.worker(burst=True).run()
    for loop in loops:
        loop.join()
    assert results == [8, 8, 8]


def test_a_loop_that_closes_while_its_calls_are_under_way_leaves_no_error_and_no_loop(in_memory, monkeypatch, caplog):
    begun, go_on = threading.Event(), threading.Event()
    put = in_memory.backend.put

    def slow(messages):
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return put(messages)

    monkeypatch.setattr(in_memory.backend, "put", slow)
    in_memory.backend.inner.put([Message(id="waits", queue="other", body=b"{}", handler="twice", name=None)])

    async def main():
        calls = [in_memory.aio.enqueue(twice(1)), in_memory.aio.result("waits")]
        under_way = [asyncio.create_task(call) for call in calls]
        await asyncio.to_thread(begun.wait, WAIT_SECONDS)
        assert not any(each.done() for each in under_way)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(main())
    go_on.set()
    eventually(lambda: in_memory.backend.queues.counts().get("default", {}).get("ready"))
    in_memory.close()
    gc.collect()
    assert loop() is None
    assert caplog.records == []


def test_closing_the_app_ends_waits_with_an_error_and_its_threads(in_memory, own_threads):
    async def main():
        id = await in_memory.aio.enqueue(twice(1))
        waiting = asyncio.create_task(in_memory.aio.result(id))
        await asyncio.to_thread(eventually, lambda: in_memory.waiters.get()._waits)
        in_memory.close()
        with pytest.raises(BackendUnavailable, match="the app was closed while a caller waited"):
            await waiting

    asyncio.run(main())
    assert [name for name in own_threads() if "aio" in name or "waiter" in name] == []


def test_a_closed_app_opens_again_for_the_next_wait(app):
    app.close()
    id = app.enqueue(twice(2))
    app.worker(burst=True).run()
    assert asyncio.run(app.aio.result(id)) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking beside threads, as users do
def test_a_child_process_waits_with_threads_of_its_own(app):
    if app.settings.url == "memory://":
        pytest.skip("no other process sees the jobs in memory")
    id = app.enqueue(twice(5))
    waiting = threading.Thread(target=app.result, args=(id, WAIT_SECONDS))
    waiting.start()
    eventually(lambda: app.waiters.get()._waits)
    child = os.fork()
    if child == 0:
        try:
            own = app.enqueue(twice(6))
            app.worker(burst=True).run()
            right = asyncio.run(app.aio.result(own, WAIT_SECONDS)) == 12 and app.result(id, WAIT_SECONDS) == 10
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    waiting.join(WAIT_SECONDS)
    assert not waiting.is_alive()
    assert app.result(id) == 10


def test_a_function_in_place_of_a_job_is_refused_with_what_to_write(in_memory):
    with pytest.raises(TypeError, match=r"decorate it with @app\.job"):
        asyncio.run(in_memory.aio.enqueue(print))


def test_jobs_are_read_found_and_awaited_together(app):
    async def main():
        handles = [await app.aio.enqueue(twice(number).replace(tags=["sum"])) for number in range(3)]
        ends = asyncio.create_task(app.aio.wait(handles, "60s"))
        await work(app)
        ended = await ends
        found = [info.id async for info in app.aio.find(tags="sum", state="done")]
        return handles, ended, found, await app.aio.get(handles[0]), await handles[2].aresult("60s")

    handles, ended, found, first, last = asyncio.run(main())

    assert {id: info.state for id, info in ended.items()} == dict.fromkeys(handles, "done")
    assert found == handles[::-1]
    assert (first.id, first.state, first.result, last) == (handles[0], "done", 0, 4)


def test_a_search_reads_more_than_one_page(in_memory):
    in_memory.enqueue_many(twice(number) for number in range(250))

    async def main():
        return [info.id async for info in in_memory.aio.find(state="ready")]

    assert len(set(asyncio.run(main()))) == 250


def test_a_wait_for_several_jobs_names_those_that_have_not_ended(in_memory):
    async def main():
        done, late = await in_memory.aio.enqueue(twice(1)), await in_memory.aio.enqueue(twice(2).replace(delay="1h"))
        await work(in_memory)
        with pytest.raises(ResultTimeout, match=rf"1 of 2 jobs have not ended .*: {late}"):
            await in_memory.aio.wait([done, late], 0.01)

    asyncio.run(main())
