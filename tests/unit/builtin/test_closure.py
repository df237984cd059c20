"""The closure handler calls any callable of the same process."""

import asyncio

import pytest

from tenure import Cancel, Fail, Tenure
from tenure.errors import InvalidJob, InvalidPayload, InvalidSchedule, JobFailed


def test_a_closure_runs_on_the_sync_backend_where_it_is_dispatched():
    seen = []

    with Tenure("sync://") as app:
        app.define("closure", lambda: seen.append(1)).dispatch()

    assert seen == [1]


def test_a_closure_runs_in_a_worker_of_the_same_process(make_app, outcome_of):
    assert outcome_of(make_app(), "closure", lambda: {"a": 1}).output == '{"a":1}'


def test_a_closure_is_kept_for_its_retries(make_app, outcome_of):
    runs = []

    def flaky():
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")

    record = outcome_of(make_app(), "closure", flaky, max_retries=5, backoff="none")

    assert (record.state, len(runs)) == ("done", 3)


def test_a_dead_closure_can_be_replayed(make_app, outcome_of):
    app, runs = make_app(), []

    def flaky():
        runs.append(1)
        if len(runs) < 2:
            raise ValueError("not yet")

    record = outcome_of(app, "closure", flaky)
    app.backend.dead_letters.replay([record.id])
    app.worker(burst=True).run()

    assert app.backend.jobs.find(record.id).state == "done"


def test_a_closure_is_not_kept_once_it_ran(make_app, outcome_of):
    app = make_app()

    outcome_of(app, "closure", lambda: None)

    assert app.registry.get("closure").shape._waiting == {}


def test_a_closure_is_refused_on_a_persistent_backend_with_what_to_do_instead(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/queue.db")

    with pytest.raises(InvalidJob, match=r"@app\.job, or enqueue it on memory:// or sync://"):
        app.define("closure", lambda: None).dispatch()

    assert app.backend.queues.counts() == {}


def test_what_cannot_be_called_is_refused(make_app):
    with pytest.raises(InvalidPayload, match="needs a callable"):
        make_app().define("closure", "os.system").dispatch()


def test_a_coroutine_function_is_refused(make_app):
    async def later():
        """Never awaited."""

    with pytest.raises(InvalidPayload, match=r"@app\.job"):
        make_app().define("closure", later).dispatch()


def test_a_token_that_this_process_did_not_give_is_refused(make_app, outcome_of):
    app = make_app()
    app.registry.get("closure").shape.pack = lambda payload: b'"guessed"'

    record = outcome_of(app, "closure", print)

    assert (record.state, record.reason) == ("dead", "forbidden")


def test_a_failing_closure_is_seen_by_the_caller_of_the_sync_backend():
    with Tenure("sync://") as app, pytest.raises(JobFailed, match="ZeroDivisionError"):
        app.define("closure", lambda: 1 / 0).dispatch()


def test_closures_that_died_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr("tenure.builtin.closure.MAX_DEAD_CLOSURES", 3)
    with Tenure("sync://") as app:
        for _ in range(10):
            with pytest.raises(JobFailed):
                app.define("closure", lambda: 1 / 0).dispatch()

        assert len(app.registry.get("closure").shape._waiting) == 3


def test_closures_that_failed_for_good_are_not_kept_for_ever_either(monkeypatch):
    monkeypatch.setattr("tenure.builtin.closure.MAX_DEAD_CLOSURES", 3)

    def fail():
        raise Fail("no")

    with Tenure("sync://") as app:
        for _ in range(5):
            with pytest.raises(JobFailed):
                app.define("closure", fail).max_retries(2).dispatch()
        assert len(app.registry.get("closure").shape._waiting) == 3


def test_a_closure_that_cancels_itself_is_forgotten(make_app, outcome_of):
    app = make_app()

    def cancel():
        raise Cancel("not needed")

    assert outcome_of(app, "closure", cancel, max_retries=2).state == "cancelled"
    assert app.registry.get("closure").shape._waiting == {}


def test_a_generator_function_is_refused(make_app):
    def generate():
        yield 1

    with pytest.raises(InvalidPayload, match="generator function"):
        make_app().define("closure", generate).dispatch()


async def tell(seen):
    await asyncio.sleep(0)
    seen.append("told")
    return "told"


def test_an_awaitable_that_a_closure_returns_is_awaited_and_then_forgotten(make_app, outcome_of):
    app, seen = make_app(), []

    record = outcome_of(app, "closure", lambda: tell(seen))

    assert (record.state, record.output, seen) == ("done", "told", ["told"])
    assert app.registry.get("closure").shape._waiting == {}


def test_a_closure_is_kept_for_the_retries_of_the_awaitable_that_it_returns(make_app, outcome_of):
    runs = []

    async def flaky():
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")

    record = outcome_of(make_app(), "closure", lambda: flaky(), max_retries=5, backoff="none")

    assert (record.state, len(runs)) == ("done", 3)


def test_a_closure_that_returns_a_generator_fails_and_is_kept(make_app, outcome_of):
    app = make_app()

    record = outcome_of(app, "closure", lambda: (seen for seen in "abc"))

    assert (record.state, record.failures[-1].type) == ("dead", "InvalidHandler")
    assert len(app.registry.get("closure").shape._waiting) == 1


def test_a_schedule_of_a_closure_is_refused_on_a_persistent_backend(make_app, tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/queue.db")
    app.schedule("closure", lambda: None).named("sweep").hourly()

    with pytest.raises(InvalidSchedule, match="schedule 'sweep' could never run: a 'closure' job cannot leave this"):
        app.schedules.all()


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
def test_a_schedule_of_a_closure_may_run_in_the_process_of_the_scheduler(make_app, tmp_path, url):
    app = make_app(f"sqlite:///{tmp_path}/queue.db" if url == "sqlite" else url)
    schedule = app.schedule("closure", lambda: None).named("sweep").hourly()
    schedule = schedule.inline() if url == "sqlite" else schedule

    assert [each.name for each in app.schedules.all()] == ["sweep"]
