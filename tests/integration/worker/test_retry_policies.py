"""Policies of the user, and Retry-After, from the exception of a handler to the time of the next attempt."""

import time
import urllib.request
from email.utils import formatdate

import pytest

from tenure import Backoff, Context, Retry, RetryAfter, Tenure
from tenure.errors import DeadlineExceeded
from tenure.testing import FakeClock, run_due
from tests.support.http_server import Server, response

# Counts are read one by one: a busy machine may hand a job back before it starts, which counts as postponed.
pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


class ByError:
    """Waits as long as the error says; it leaves other errors to the app, and fails over a KeyError."""

    def __init__(self):
        self.asked = []

    def delay(self, retry, error):
        self.asked.append((retry, type(error)))
        if isinstance(error, KeyError):
            raise error
        return getattr(error, "seconds", None)


class Throttled(Exception):
    def __init__(self, seconds):
        super().__init__("slow down")
        self.seconds = seconds


def delay_of(app, id):
    """Seconds from now until a delayed job is due."""
    record = app.backend.jobs.find(id)
    assert record.state == "delayed"
    return (record.due_at - app.clock.now()) / 1e6


@pytest.fixture
def policy():
    return ByError()


def test_a_policy_of_the_handler_gets_the_exception_and_the_number_of_the_retry(app, clock, policy):
    @app.job(max_retries=5, retry=policy)
    def call(ctx: Context):
        raise Throttled(100 * ctx.attempt)

    id = call.enqueue()
    assert run_due(app)["requeued"] == 1
    assert delay_of(app, id) == 100
    clock.advance(100)
    assert run_due(app)["requeued"] == 1
    assert delay_of(app, id) == 200
    assert policy.asked == [(1, Throttled), (2, Throttled)]


def test_a_policy_of_the_app_gets_the_exception_too(policy):
    with Tenure("memory://", retry=policy, clock=FakeClock()) as app:

        @app.job(max_retries=1)
        async def call():
            raise Throttled(100)

        id = call.enqueue()
        run_due(app)
        assert delay_of(app, id) == 100


def test_a_policy_of_the_app_decides_for_builtin_handlers(policy):
    with Tenure("memory://", retry=policy, clock=FakeClock(), event={"allow": ["paid"]}) as app:

        @app.on("paid")
        def fail(payload):
            raise ValueError("no")

        app.define("event", {"name": "paid"}).max_retries(1).dispatch()
        run_due(app)
    assert policy.asked[0][0] == 1
    assert issubclass(policy.asked[0][1], Exception)


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("no")])
def test_where_the_policy_of_the_handler_has_no_answer_the_backoff_of_the_app_decides(policy, error):
    app = Tenure("memory://", backoff={"strategy": "fixed", "base": 33}, clock=FakeClock())

    @app.job(max_retries=1, retry=policy)
    def call():
        raise error

    id = call.enqueue()
    run_due(app)
    assert delay_of(app, id) == 33


def test_the_backoff_of_the_job_goes_before_every_policy(app, policy):
    @app.job(max_retries=5, retry=policy)
    def call():
        raise Throttled(100)

    id = call.using(backoff=Backoff("fixed", base=7)).enqueue()
    run_due(app)
    assert (delay_of(app, id), policy.asked) == (7, [])


def test_a_policy_is_not_asked_for_a_job_without_retries_left(app, policy):
    @app.job(max_retries=0, retry=policy)
    def call():
        raise Throttled(100)

    call.enqueue()
    assert run_due(app)["dead-lettered"] == 1
    assert policy.asked == []


def test_retry_without_a_delay_asks_the_policy_and_with_one_does_not(app, policy):
    @app.job(max_retries=1, retry=policy)
    def call(delay: int | None):
        raise Retry("not yet", delay=delay)

    ids = [call.enqueue(delay=None), call.enqueue(delay=44)]
    run_due(app)
    assert ([delay_of(app, id) for id in ids], policy.asked) == ([5, 44], [(1, Retry)])


@pytest.mark.parametrize("error", [SystemExit(3), DeadlineExceeded()])
def test_a_policy_gets_no_error_after_an_exit_or_a_timeout(app, policy, error):
    @app.job(max_retries=1, timeout=60, retry=policy)
    def call():
        raise error

    call.enqueue()
    assert run_due(app)["requeued"] == 1
    assert policy.asked == [(1, type(None))]


@pytest.fixture
def serve():
    servers = []

    def start(**headers):
        servers.append(Server(response(429, **headers)))
        return f"http://127.0.0.1:{servers[-1].port}/"

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("wraps", [False, True])
def test_retry_after_of_a_real_answer_is_obeyed(app, serve, wraps):
    @app.job(max_retries=1, retry=RetryAfter())
    def call(url: str):
        try:
            urllib.request.urlopen(url, timeout=20)
        except OSError as error:
            if wraps:
                raise RuntimeError("the import failed") from error
            raise

    id = call.enqueue(url=serve(Retry_After=120))
    run_due(app)
    assert delay_of(app, id) == 120


def test_a_date_as_retry_after_is_obeyed_and_capped(app, serve):
    @app.job(max_retries=1, retry=RetryAfter(cap="10m"))
    def call(url: str):
        urllib.request.urlopen(url, timeout=20)

    soon, late = (serve(Retry_After=formatdate(time.time() + seconds, usegmt=True)) for seconds in (300, 9000))
    ids = [call.enqueue(url=soon), call.enqueue(url=late)]
    run_due(app)
    near, far = (delay_of(app, id) for id in ids)
    assert 200 < near <= 300
    assert far == 600


def test_an_answer_without_retry_after_waits_by_the_default(app, serve):
    @app.job(max_retries=1, retry=RetryAfter(Backoff("fixed", base=17)))
    def call(url: str):
        urllib.request.urlopen(url, timeout=20)

    ids = [call.enqueue(url=serve()), call.enqueue(url=serve(Retry_After="soon"))]
    run_due(app)
    assert [delay_of(app, id) for id in ids] == [17, 17]
