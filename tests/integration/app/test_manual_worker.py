"""The manager: a worker loop of the user's own, with the verbs that workers use, on every backend."""

from datetime import UTC, datetime, timedelta
from secrets import token_hex

import pytest

from tenure import Context, Tenure
from tenure.errors import InvalidHandler, InvalidJob, JobNotFound, UnknownHandler
from tenure.events import LeaseLost
from tenure.wire.signing import new_key
from tests.support.servicebus import Emulator
from tests.support.waiting import WAIT_SECONDS

KEEPING = ["memory", "sqlite", "redis", "postgres", "mariadb"]
everywhere = pytest.mark.parametrize("url", [*KEEPING, "beanstalk", "servicebus"], indirect=True)
where_much_is_kept = pytest.mark.parametrize("url", KEEPING, indirect=True)
# The SDK of Service Bus leaves the sockets of lost connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    match request.param:
        case "memory":
            yield "memory://"
        case "sqlite":
            yield f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        case "servicebus":
            with Emulator("default", "reports", lock=WAIT_SECONDS, most_deliveries=3, remember=60) as emulator:
                yield f"servicebus:{emulator.connection_string}"
        case "beanstalk":
            yield f"{request.getfixturevalue('beanstalk_url')}?ttr={WAIT_SECONDS:g}&prefix=test-{token_hex(6)}."
        case "redis":
            yield request.getfixturevalue("redis_url")
        case name:
            place, empty = request.getfixturevalue(f"{name}_place")
            empty()
            yield place


@pytest.fixture
def app(url):
    store = {"store": "memory://"} if url.startswith(("beanstalk", "servicebus")) else {}
    with Tenure(url, keys=[new_key().dump()], backoff={"strategy": "fixed", "base": 60}, **store) as app:

        @app.job(max_retries=1)
        def add(a: int, b: int = 1) -> int:
            return a + b

        class Report:
            queue = "reports"

            def handle(self, ctx: Context, payload: dict) -> str:
                return f"{payload['month']} by {ctx.handler}"

        app.register("report", Report)
        yield app


@pytest.fixture
def manager(app):
    return app.manager(seconds=WAIT_SECONDS)


@pytest.fixture
def worker(manager):
    worker = manager.register_worker(["default", "reports"])
    yield worker
    manager.unregister(worker)


def state(app, id):
    """Of backends that forget or cannot find, nothing is asked."""
    return app.backend.jobs.find(id).state if app.backend.jobs is not None else None


@everywhere
def test_a_loop_of_ones_own_runs_jobs_to_their_end(app, manager, worker):
    first = manager.push("add", {"a": 2})
    second = manager.push("report", {"month": 6})
    results = {}
    while job := manager.next_job([], worker):
        results[job.id] = job.run()
        assert manager.mark_complete(job, results[job.id])
        manager.touch(worker)
    assert results == {first: 3, second: "6 by report"}
    assert {state(app, first), state(app, second)} <= {"done", None}
    assert app.metrics.snapshot()["counters"]["jobs_succeeded|queue=default"] == 1


def test_a_job_has_the_shape_of_its_row(manager, worker):
    id = manager.push("add", {"a": 2}, queue="reports")
    assert manager.next_job(["default"], worker) is None
    job = manager.next_job(["reports"], worker)
    assert (job.id, job.queue, job.task, job.data.a, job.data.b) == (id, "reports", "add", 2, 1)
    assert (job.attempts, job.max_retries, job.may_retry) == (0, 1, True)
    assert abs(job.available_at - datetime.now(UTC)) < timedelta(hours=1)
    manager.mark_complete(job)


def test_a_job_waits_until_it_is_available(manager, worker):
    manager.push("add", {"a": 1}, available_at=datetime.now(UTC) + timedelta(hours=1))
    assert manager.next_job([], worker) is None


@everywhere
def test_a_retry_costs_an_attempt_and_says_when_it_comes(app, manager, worker):
    id = manager.push("add", {"a": 1})
    job = manager.next_job([], worker)
    at = manager.retry(job, ValueError("not yet"))
    assert timedelta(seconds=20) < at - datetime.now(UTC) < timedelta(seconds=90)
    assert manager.next_job([], worker) is None
    if app.backend.jobs is not None:
        record = app.backend.jobs.find(id)
        assert (record.state, record.attempts, record.failures[0].message) == ("delayed", 1, "not yet")
        assert record.failures[0].run.worker == worker.id


@everywhere
def test_a_failed_job_is_dead_whatever_its_budget_and_can_be_tried_again(app, manager, worker):
    id = manager.push("add", {"a": 1})
    assert manager.mark_failed(manager.next_job([], worker), ValueError("never"))
    (letter,) = app.backend.dead_letters.page()
    assert (letter.id, letter.reason, letter.failures[0].message) == (id, "retries_exhausted", "never")
    manager.retry(id)
    job = manager.next_job([], worker)
    assert (job.id, job.attempts) == (id, 0)
    manager.mark_complete(job)
    with pytest.raises(JobNotFound, match="only a dead letter can be retried"):
        manager.retry(id)


def test_a_job_is_settled_once(manager, worker):
    manager.push("add", {"a": 1})
    job = manager.next_job([], worker)
    manager.mark_complete(job)
    with pytest.raises(InvalidJob, match="is not claimed by this manager"):
        manager.mark_complete(job)


@where_much_is_kept
def test_what_a_worker_that_ends_has_claimed_goes_back_at_no_cost(manager):
    id = manager.push("add", {"a": 1})
    first = manager.register_worker(["default"])
    assert manager.next_job([], first).id == id
    manager.unregister(first)
    second = manager.register_worker(["default"])
    job = manager.next_job([], second)
    assert (job.id, job.attempts) == (id, 0)
    manager.mark_complete(job)


def test_a_payload_that_does_not_fit_is_dead_and_the_next_job_is_found(app, manager, worker, monkeypatch):
    monkeypatch.setattr(app.registry.get("add").shape, "pack", lambda payload: b'{"a": "x"}')
    bad = manager.push("add", {"a": 1})
    monkeypatch.undo()
    good = manager.push("add", {"a": 1})
    job = manager.next_job([], worker)
    assert job.id == good
    manager.mark_complete(job)
    assert [(letter.id, letter.reason) for letter in app.backend.dead_letters.page()] == [(bad, "invalid_payload")]


def test_a_paused_queue_gives_nothing(app, manager, worker):
    app.guards.pause("default")
    manager.push("add", {"a": 1})
    assert app.manager().next_job(["default"], worker) is None


@where_much_is_kept
def test_a_lock_is_taken_with_the_claim_and_given_back_with_the_end(app, manager, worker):
    job = app.define("add", {"a": 1}).single_instance().named("alone")
    job.dispatch()
    job.dispatch()
    first = manager.next_job([], worker)
    assert manager.next_job([], worker) is None
    manager.mark_complete(first)
    manager.mark_complete(manager.next_job([], worker))


@where_much_is_kept
def test_workers_are_known_while_they_are_touched(app, manager):
    worker = manager.register_worker(["default"])
    assert [(each.id, each.queues, each.runner) for each in app.backend.workers.alive()] == [
        (worker.id, ("default",), "manager")
    ]
    assert manager.delete_stale() == []
    touched = manager.touch(worker, debounce=0)
    assert touched.seen_at >= worker.seen_at
    assert [each.id for each in manager.delete_stale(grace=-60)] == [worker.id]
    assert app.backend.workers.alive() == []


@where_much_is_kept
def test_ended_jobs_are_deleted_when_they_are_old(app, manager, worker):
    id = manager.push("add", {"a": 1})
    manager.mark_complete(manager.next_job([], worker))
    assert manager.rotate() == 0
    assert manager.rotate(complete=0) == 0
    assert manager.rotate(complete=-1) == 1  # everything that ended before tomorrow
    assert app.backend.jobs.find(id) is None


def test_a_queue_is_found_by_its_class_and_its_aliases(manager, worker):
    class Reports:
        name = "reports"
        aliases = ("papers",)

    manager.add_alias("Forms", Reports())
    assert [manager.resolve_queue(each) for each in (Reports, "PAPERS", "forms", "reports")] == ["reports"] * 4
    manager.push("add", {"a": 1}, queue="papers")
    manager.mark_complete(manager.next_job(["forms"], worker))


class Sum:
    max_retries = 4

    def handle(self, data: dict[str, int]) -> int:
        return data["a"] + data.get("b", 1)


class TestTasks:
    """What can be pushed instead of a key."""

    @pytest.mark.parametrize("task", [Sum, Sum(), "sum"])
    def test_a_task_class_or_object_is_pushed_with_its_data_and_its_retries(self, app, manager, worker, task):
        app.register("sum", Sum)
        id = manager.push(task, {"a": 1, "b": 2})
        job = manager.next_job([], worker)
        assert (job.id, job.task, job.max_retries, job.run()) == (id, "sum", 4, 3)
        manager.mark_complete(job)

    def test_a_function_is_pushed_with_its_arguments(self, app, manager, worker):
        @app.job
        def double(number: int) -> int:
            return 2 * number

        manager.push(double, {"number": 4})
        job = manager.next_job([], worker)
        assert job.run() == 8
        manager.mark_complete(job)

    @pytest.mark.parametrize("task", [Sum, Sum()])
    def test_a_task_class_that_is_not_registered_is_refused(self, manager, task):
        with pytest.raises(UnknownHandler, match=r"'Sum' is registered under no key; call app\.register"):
            manager.push(task, {"a": 1})

    def test_a_task_class_with_several_keys_is_refused(self, app, manager):
        app.register("sum", Sum)
        app.register("total", Sum)
        with pytest.raises(UnknownHandler, match="'Sum' is registered under the keys sum, total; push one of them"):
            manager.push(Sum, {"a": 1})

    def test_an_object_with_state_that_a_worker_would_not_see_is_refused(self, app, manager):
        app.register("sum", Sum)
        task = Sum()
        task.start = 5
        with pytest.raises(InvalidJob, match="pass what it needs as data"):
            manager.push(task, {"a": 1})


class TestExpiry:
    """With a clock of its own: claims that end."""

    @pytest.fixture(params=["memory", "sqlite"])
    def app(self, request, clock, tmp_path):
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}[request.param]
        with Tenure(url, clock=clock) as app:
            app.job(name="add")(lambda: None)
            yield app

    @pytest.fixture
    def manager(self, app):
        return app.manager(seconds=5)

    def test_a_claim_that_is_not_touched_ends_and_its_holder_can_change_nothing(self, app, manager, worker, clock):
        lost = []
        app.listen(lambda event: lost.append(event) if isinstance(event, LeaseLost) else None)
        id = manager.push("add")
        job = manager.next_job([], worker)
        clock.advance(4)
        manager.touch(worker, debounce=0)
        clock.advance(4)
        assert manager.reset_stuck() == []
        clock.advance(2)
        assert manager.reset_stuck() == [id]
        other = app.manager(seconds=5)
        again = other.next_job([], worker)
        assert again.id == id
        assert manager.mark_complete(job) is False
        assert manager.reset_stuck(["default"]) == []
        assert other.mark_complete(again)
        assert [(event.ids, event.verb) for event in lost] == [((id,), "settle")]

    def test_a_suspect_is_claimed_alone(self, app, manager, worker, clock):
        id, other = manager.push("add"), manager.push("add")
        app.backend.lease(["default"], limit=1, seconds=5)
        clock.advance(6)
        app.backend.reap(["default"], suspect_after=1)
        first = manager.next_job([], worker)
        assert first.id == other
        assert manager.next_job([], worker) is None  # something is claimed
        manager.mark_complete(first)
        suspect = manager.next_job([], worker)
        assert (suspect.id, suspect.lease.alone) == (id, True)
        late = manager.push("add")
        assert manager.next_job([], worker) is None
        manager.mark_complete(suspect)
        assert manager.next_job([], worker).id == late

    def test_touching_tells_of_what_was_lost(self, app, manager, worker, clock):
        manager.push("add")
        job = manager.next_job([], worker)
        clock.advance(6)
        manager.reset_stuck()
        manager.touch(worker, debounce=0)
        assert manager.mark_complete(job) is False
        assert manager.mark_failed(job, ValueError("late")) is False
        assert manager.retry(job) is None

    def test_what_a_worker_handed_back_can_no_longer_be_settled(self, manager, worker):
        manager.push("add")
        job = manager.next_job([], worker)
        manager.unregister(worker)
        assert manager.mark_complete(job) is False

    def test_the_job_of_another_manager_is_refused(self, app, manager, worker):
        manager.push("add")
        job = manager.next_job([], worker)
        with pytest.raises(InvalidJob, match="is another manager's"):
            app.manager().mark_complete(job)
        assert manager.mark_complete(job)

    def test_a_heartbeat_is_written_only_so_often(self, app, manager, worker, clock):
        clock.advance(4)
        assert manager.touch(worker).seen_at == worker.seen_at


def test_a_manager_awaits_what_a_plain_handler_returns_and_refuses_a_generator(app, manager, worker):
    async def later():
        return "later"

    app.job(name="awaited")(lambda: later())
    app.job(name="lazy")(lambda: map(print, "abc"))
    manager.push("awaited")
    manager.push("lazy")
    assert manager.next_job([], worker).run() == "later"
    job = manager.next_job([], worker)
    with pytest.raises(InvalidHandler, match="whose code has not run"):
        manager.mark_complete(job, job.run())
    assert manager.mark_failed(job, ValueError("lazy"))
