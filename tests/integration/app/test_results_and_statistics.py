"""Results of jobs, the time of each attempt, and statistics of many jobs."""

import threading

import pytest

from tenure import Tenure
from tenure.errors import JobFailed, JobNotFound, ResultCut, ResultTimeout
from tenure.metrics.statistics import SLOT_MICROSECONDS


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"])
def app(request, tmp_path):
    with Tenure(request.param.format(tmp_path)) as app:

        @app.job(max_retries=1)
        def twice(value):
            return [value, value]

        @app.job(max_retries=1)
        def burn():
            sum(range(2_000_000))
            raise ValueError("no good")

        @app.job
        def say(text: str) -> str:
            return text

        yield app


def run(app, handler, payload=None):
    id = app.define(handler, payload).dispatch()
    app.worker(burst=True).run()
    return id


def test_a_result_comes_back_as_it_was_returned(app):
    assert app.result(run(app, "twice", {"value": {"a": None}})) == [{"a": None}, {"a": None}]


def test_a_text_that_looks_like_a_number_stays_a_text(app):
    assert app.result(run(app, "say", {"text": "42"})) == "42"


@pytest.mark.parametrize(
    ("handler", "payload", "length"),
    [("twice", {"value": "x" * 70_000}, 140_007), ("say", {"text": "x" * 70_000}, 70_000)],
)
def test_a_result_that_was_cut_raises_and_its_record_says_so(app, handler, payload, length):
    id = run(app, handler, payload)
    with pytest.raises(ResultCut, match=f"has {length} characters, and only its beginning is stored"):
        app.result(id)
    record = app.backend.jobs.find(id)
    assert (record.state, record.run.output_length) == ("done", length)
    assert record.output == f"{record.output[:65_536]}… ({length} characters in all)"


def test_a_result_is_waited_for(app):
    id = app.define("say", {"text": "late"}).dispatch()
    worker = threading.Thread(target=app.worker(burst=True).run)
    threading.Timer(0.1, worker.start).start()
    assert app.result(id, timeout="60s") == "late"
    worker.join()


def test_a_job_that_has_not_ended_in_time_says_where_it_is(app):
    id = app.define("say", {"text": "never"}).dispatch()
    with pytest.raises(ResultTimeout, match=r"is ready and has not ended within 0\.02 s"):
        app.result(id, timeout=0.02)


def test_the_result_of_a_dead_letter_is_its_error(app):
    id = app.define("burn").max_retries(0).dispatch()
    app.worker(burst=True).run()
    with pytest.raises(JobFailed, match=r"is dead \(retries_exhausted\): ValueError: no good"):
        app.result(id)


def test_a_cancelled_job_has_no_result(app):
    id = app.define("say", {"text": "never"}).dispatch()
    app.cancel(id)
    with pytest.raises(JobFailed, match=r"is cancelled \(cancelled on request\)"):
        app.result(id)


def test_nobody_has_a_result_for_an_unknown_job(app):
    with pytest.raises(JobNotFound, match="no job 'nobody' is known here"):
        app.result("nobody")


def test_what_an_attempt_took_is_kept_with_the_job(app):
    worker = app.worker(burst=True)
    id = app.define("say", {"text": "hello"}).dispatch()
    worker.run()
    taken = app.backend.jobs.find(id).run
    assert (taken.handler, taken.worker, taken.is_json) == ("say", worker.name, False)
    assert taken.wait >= 0
    assert taken.seconds > 0
    assert taken.cpu > 0
    assert taken.memory > 1_000_000
    assert app.backend.jobs.find(id).due_at <= taken.started <= app.clock.now()


def test_what_a_failed_attempt_took_is_kept_with_its_failure(app):
    id = app.define("burn").max_retries(1).backoff("none").dispatch()
    app.worker(burst=True).run()
    first, second = (failure.run for failure in app.backend.jobs.find(id).failures)
    assert first.cpu > 0.005
    assert first.wait is not None
    assert second.wait is None  # it came back: how long it waited for a worker is not known
    assert second.started > first.started


def test_statistics_tell_of_queues_and_handlers(app):
    app.enqueue_many(app.define("say", {"text": "hi"}).build() for _ in range(20))
    app.define("burn").max_retries(1).backoff("none").dispatch()
    app.worker(burst=True).run()
    (default,) = app.statistics("1h")
    assert (default.name, default.done, default.dead) == ("default", 20, 1)
    assert (default.failed, default.retried) == (2, 1)
    by_handler = {each.name: each for each in app.statistics("1h", by="handler")}
    assert {name: each.done for name, each in by_handler.items()} == {"say": 20, "burn": 0}
    assert by_handler["burn"].cpu > 0.005
    assert by_handler["say"].wait.p50 >= 0


def test_statistics_of_workers_are_added_up_and_then_kept_as_one(app):
    run(app, "say", {"text": "one"})
    run(app, "say", {"text": "two"})
    before = app.statistics("1h")
    assert app.backend.stats.fold(app.clock.now() + SLOT_MICROSECONDS, 100) == 2
    assert [each.done for each in app.statistics("1h")] == [each.done for each in before] == [2]
