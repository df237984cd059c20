"""Handles: what `enqueue` returns is the id of the job, and can wait for its result and change the job."""

import asyncio
import copy
import dataclasses
import json
import pickle
import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest

from tenure import Context, JobHandle, Tenure
from tenure.errors import InvalidResult, JobFailed, JobNotFound, ResultTimeout
from tenure.wire.signing import new_key
from tests.support.backend_urls import empty_backend
from tests.support.waiting import WAIT_SECONDS

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "redis", "postgres", "mariadb"], indirect=True)


@dataclasses.dataclass
class Invoice:
    number: int
    due: datetime


class Address(msgspec.Struct):
    street: str


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    first: str = pydantic.Field(alias="firstName")


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return empty_backend(request, tmp_path)


@pytest.fixture
def app(url):
    with Tenure(url, keys=[new_key().dump()]) as app:

        @app.job
        def invoice(number: int) -> Invoice:
            return Invoice(number, datetime(2030, 1, 2, tzinfo=UTC))

        @app.job
        def address() -> Address:
            return Address("High Street")

        @app.job
        async def person() -> Person | None:
            return Person(first="Ada")

        @app.job
        def lie() -> Invoice:
            return {"number": "seven", "due": "2030-01-02T00:00:00Z"}

        @app.job
        def untold(value):
            return value

        @app.job
        def say() -> None:
            print("printed")  # noqa: T201

        @app.job
        def echo(text: str) -> str:
            return text

        @app.job(max_retries=1, backoff="none")
        def fail(ctx: Context) -> int:
            raise ValueError(f"attempt {ctx.attempt}")

        yield app


def run(app, name, payload=None):
    handle = app.define(name, payload).dispatch()
    app.worker(burst=True).run()
    return handle


def test_a_result_comes_back_as_the_type_that_its_handler_declares(app):
    assert run(app, "invoice", {"number": 7}).result(0) == Invoice(7, datetime(2030, 1, 2, tzinfo=UTC))
    assert run(app, "address").result(0) == Address("High Street")
    assert run(app, "person").result(0) == Person(first="Ada")
    assert run(app, "echo", {"text": "7"}).result(0) == "7"


def test_a_result_of_no_declared_type_is_what_json_decodes(app):
    assert run(app, "untold", {"value": {"a": [1, None]}}).result(0) == {"a": [1, None]}


def test_the_result_of_a_handler_that_returns_none_is_none_whatever_it_printed(app):
    handle = run(app, "say")
    assert (handle.result(0), handle.info().output) == (None, "printed\n")


def test_a_result_that_is_not_of_the_declared_type_says_so_and_can_be_read_as_it_is(app):
    handle = run(app, "lie")
    with pytest.raises(InvalidResult, match=r"is not Invoice, which handler 'lie' declares: .*\$\.number"):
        handle.result(0)
    assert app.handle(handle, Any).result(0)["number"] == "seven"
    assert app.handle(handle, dict[str, str]).result(0)["number"] == "seven"


def test_an_erased_result_is_not_taken_for_none(app):
    handle = run(app, "invoice", {"number": 7})
    app.jobs.forget([handle])
    with pytest.raises(InvalidResult, match="it has none, or it was erased"):
        handle.result(0)


@everywhere
def test_a_handle_follows_its_job_on_every_backend(app):
    handle = app.define("echo", {"text": "hello"}).delay("1h").dispatch()
    assert (type(handle), type(handle.id), handle) == (JobHandle, str, handle.id)
    assert (handle.state, handle.info().payload, handle.progress) == ("delayed", {"text": "hello"}, None)
    assert handle.reschedule() == "rescheduled"
    assert handle.state == "ready"
    app.worker(burst=True).run()
    assert (handle.result(timeout=WAIT_SECONDS), handle.cancel()) == ("hello", "too_late")
    assert app.define("echo", {"text": "x"}).dispatch().cancel() == "cancelled"


@everywhere
def test_a_handle_may_stand_wherever_an_id_or_a_text_may(app):
    first = app.define("echo", {"text": "a"}).dispatch()
    second = (
        app.define("untold", {"value": {"parents": [first], first: 1}})
        .named(first)
        .idempotency_key(first)
        .meta(parent=first)
        .options(unique=first)
        .dispatch()
    )
    app.worker(burst=True).run()
    assert second.result(0) == {"parents": [first.id], first.id: 1}
    assert second.info().name == first.id
    assert app.enqueue(app.define("echo", {"text": "b"}).build().replace(id=first)) == first
    assert {first: 1}[first.id] == 1
    failed = run(app, "fail")
    assert app.dead_letters().replay([failed]) == [failed]
    assert app.jobs.cancel([failed]).results == {failed: "cancelled"}
    assert app.jobs.forget([first, second]) == [first, second]


def test_a_handle_inside_a_result_is_its_id(app):
    @app.job
    def start() -> dict[str, str]:
        return {"id": app.define("say").dispatch()}

    assert app.handle(run(app, "start").result(0)["id"]).result(0) is None


def test_a_handle_is_a_text_to_json_and_pickle_and_copies_are_the_plain_id(app):
    handle = app.define("say").dispatch()
    assert json.loads(json.dumps({"id": handle})) == {"id": handle.id}
    for back in (pickle.loads(pickle.dumps(handle)), copy.copy(handle), copy.deepcopy([handle])[0]):
        assert (type(back), back) == (str, handle)


def test_many_jobs_have_handles_too(app):
    found = app.enqueue_many(app.define("echo", {"text": str(n)}).build() for n in range(3))
    app.worker(burst=True).run()
    assert [each.result(0) for each in found] == ["0", "1", "2"]


def test_a_handle_remembers_the_backend_of_its_job(app, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    handle = app.define("echo", {"text": "there"}).dispatch(other)
    assert (handle.state, app.handle(handle, backend=other).state) == ("ready", "ready")
    with pytest.raises(JobNotFound):
        app.handle(handle).info()
    assert handle.cancel() == "cancelled"


def test_a_handle_waits_for_the_end_and_without_a_timeout_for_ever(app):
    handle = app.define("echo", {"text": "late"}).dispatch()
    with pytest.raises(ResultTimeout):
        handle.result(timeout=0)
    worker = threading.Thread(target=app.worker(burst=True).run)
    threading.Timer(0.1, worker.start).start()
    assert handle.result() == "late"
    worker.join()


def test_a_coroutine_waits_without_blocking_its_loop(app):
    async def wait():
        handle = app.define("echo", {"text": "later"}).dispatch()
        result = asyncio.create_task(handle.aresult(WAIT_SECONDS))
        await asyncio.to_thread(app.worker(burst=True).run)
        return await result

    assert asyncio.run(wait()) == "later"


def test_an_unknown_id_has_neither_state_nor_result(app):
    handle = app.handle("nobody")
    for ask in (handle.info, handle.result, lambda: handle.state):
        with pytest.raises(JobNotFound, match="no job 'nobody' is known here"):
            ask()
    assert (handle.cancel(), handle.reschedule()) == ("unknown", "unknown")


def test_the_error_of_a_failed_job_says_what_happened_and_can_be_pickled(app):
    handle = run(app, "fail")
    with pytest.raises(JobFailed, match=r"is dead \(retries_exhausted\): ValueError: attempt 2") as caught:
        handle.result(0)
    check_failure(caught.value, handle)


def test_the_sync_backend_raises_the_same_error(app):
    with pytest.raises(JobFailed, match="reason 'retries_exhausted': ValueError: attempt 2") as caught:
        app.define("fail").options(max_retries=1).dispatch("sync://")
    check_failure(caught.value, caught.value.id)


def check_failure(error, id):
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.id, each.state, each.reason, each.attempts) == (id, "dead", "retries_exhausted", 2)
        assert (each.error_type, each.error, str(each)) == ("ValueError", "attempt 2", str(error))
        assert 'raise ValueError(f"attempt {ctx.attempt}")' in each.traceback


def test_the_history_of_a_job_lists_its_attempts(app):
    worker = app.worker(burst=True)
    handle = app.define("fail").dispatch()
    worker.run()
    info = handle.info()
    assert (info.state, info.runs, info.attempts, info.reason) == ("dead", 2, 2, "retries_exhausted")
    assert info.error == "ValueError: attempt 2"
    assert [(each.number, each.outcome, each.error, each.worker) for each in info.history] == [
        (1, "failed", "attempt 1", worker.name),
        (2, "failed", "attempt 2", worker.name),
    ]
    assert info.failures == info.history
    first, second = info.history
    assert info.enqueued_at <= first.started_at <= first.ended_at <= second.started_at <= info.finished_at
    assert first.started_at.tzinfo is UTC


def test_an_info_becomes_a_dictionary_that_any_encoder_takes(app):
    info = run(app, "invoice", {"number": 7}).info()
    told = json.loads(json.dumps(info.as_dict()))
    assert told == info.as_dict()
    assert (told["state"], told["result"]["number"], told["tags"]) == ("done", 7, [])
    assert datetime.fromisoformat(told["finished_at"]) == info.finished_at
    assert [each["outcome"] for each in told["history"]] == ["done"]


def test_secrets_of_a_payload_are_masked_in_an_info(app):
    handle = app.define("untold", {"value": {"password": "hunter2"}}).meta(api_key="k").dispatch()
    assert (handle.info().payload, handle.info().meta) == ({"value": {"password": "***"}}, {"api_key": "***"})
