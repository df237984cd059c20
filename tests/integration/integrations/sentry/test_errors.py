"""Which failures of jobs become events of Sentry, and what the events say."""

import asyncio
import json
import logging
import subprocess
import sys
import threading

import pytest
import sentry_sdk
from msgspec import structs

from tenure import Cancel, Context, Fail, Snooze
from tenure.errors import SettingsError
from tenure.integrations.sentry import TenureIntegration, instrument
from tests.support.http_server import Server
from tests.support.waiting import WAIT_SECONDS

SECRET = "sword-fish"


def work(app):
    app.worker(burst=True).run()


@pytest.fixture
def run(app):
    """Runs a function as a job, until nothing is ready; returns its id."""

    def run(function, **options):
        job = app.job(name="f", **options)(function)
        id = job.enqueue()
        work(app)
        return id

    return run


def fail():
    raise ValueError("no coffee")


def test_the_last_failure_of_a_job_is_an_event(sentry, run):
    id = run(fail)
    (event,) = sentry.events
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"], error["mechanism"]["type"]) == ("ValueError", "no coffee", "tenure")
    assert error["stacktrace"]["frames"][-1]["function"] == "fail"
    assert event["transaction"] == "f"
    assert event["tags"] == {
        "tenure.job_id": id, "tenure.handler": "f", "tenure.queue": "default", "tenure.attempt": 1
    }  # fmt: skip
    described = event["contexts"]["tenure"]
    assert (described["id"], described["max_retries"], described["attempt"]) == (id, 0, 1)


def test_retries_are_breadcrumbs_of_the_last_failure(sentry, app):
    @app.job(max_retries=2, backoff="none")
    def fail(ctx: Context):
        raise ValueError(f"time {ctx.attempt}")

    fail.enqueue()
    work(app)
    (event,) = sentry.events
    assert event["exception"]["values"][0]["value"] == "time 3"
    messages = [crumb["message"] for crumb in event["breadcrumbs"]["values"] if crumb["category"] == "tenure.retry"]
    assert messages == ["attempt 1 failed: ValueError: time 1", "attempt 2 failed: ValueError: time 2"]


def test_every_failure_is_an_event_if_the_integration_says_so(start, app):
    sentry = start(report="every")

    @app.job(max_retries=2, backoff="none")
    def fail(ctx: Context):
        raise ValueError(f"time {ctx.attempt}")

    fail.enqueue()
    work(app)
    assert [event["exception"]["values"][0]["value"] for event in sentry.events] == ["time 1", "time 2", "time 3"]


@pytest.mark.parametrize("asked", [Snooze("1h"), Cancel("not needed")])
def test_what_a_handler_asks_for_is_no_error(sentry, run, asked):
    def ask():
        raise asked

    run(ask)
    assert sentry.events == []


def test_fail_is_an_error_although_retries_are_left(sentry, run):
    def give_up():
        raise Fail("unknown customer")

    run(give_up, max_retries=5)
    assert [event["exception"]["values"][0]["type"] for event in sentry.events] == ["Fail"]


def test_a_timeout_of_an_async_handler_is_an_error(sentry, run):
    async def sleep():
        await asyncio.sleep(60)

    run(sleep, timeout=0.05)
    (event,) = sentry.events
    assert event["exception"]["values"][-1]["type"] == "DeadlineExceeded"
    assert sentry.transactions[0]["contexts"]["trace"]["status"] == "deadline_exceeded"


def test_a_failure_of_before_run_is_an_error(sentry, app):
    class Report:
        def before_run(self, ctx):
            raise ValueError("not today")

        def handle(self): ...

    app.register("report", Report)
    app.define("report").dispatch()
    work(app)
    assert [event["exception"]["values"][0]["value"] for event in sentry.events] == ["not today"]


def stored(app, job, change):
    """Put the message of a job after a change of its bytes; returns its id."""
    message = app._sealer.message(job, app.open_backend())
    app.backend.put([structs.replace(message, body=change(message.body))])
    return message.id


def test_a_payload_that_does_not_fit_is_one_event(sentry, app):
    @app.job
    def greet(name: str): ...

    opened = app.open_backend()
    envelope = opened.wire.envelope(greet.build("Ann"), b'{"name": 7}', "id-1", app.clock.now())
    message = app._sealer.message(greet.build("Ann"), opened)
    opened.backend.put([structs.replace(message, id="id-1", body=opened.wire.seal_envelope(envelope))])
    work(app)
    (event,) = sentry.events
    assert event["exception"]["values"][-1]["type"] == "ValidationError"
    assert event["tags"]["tenure.job_id"] == "id-1"


def test_a_refused_message_is_reported_by_the_worker(sentry, app):
    greet = app.job(name="greet")(lambda: None)
    id = stored(app, greet.build(), lambda body: body.replace(b'"priority":5', b'"priority":9'))
    work(app)
    (event,) = sentry.events
    assert event["exception"]["values"][0]["type"] == "BadSignature"
    assert (event["tags"]["tenure.job_id"], event["tags"]["tenure.reason"]) == (id, "bad_signature")
    assert (event["level"], event["fingerprint"]) == ("fatal", ["tenure", "default", "bad_signature"])


def test_the_lines_of_our_log_are_no_second_events(sentry, run):
    run(fail)
    assert [event.get("logger") for event in sentry.events] == [None]


def test_errors_that_a_handler_logs_are_events_with_the_job(sentry, run):
    def complain():
        logging.getLogger("shop").error("out of milk")

    id = run(complain)
    (event,) = sentry.events
    assert (event["logger"], event["tags"]["tenure.job_id"]) == ("shop", id)


@pytest.fixture
def shown(start, app):
    """The context `tenure` of a failed job with secrets, with these options of the client."""

    def shown(options):
        sentry = start(options)
        app.define("pay", {"card": "visa", "password": "swordfish"}).meta(api_key="swordfish").dispatch()
        work(app)
        return sentry.events[0]["contexts"]["tenure"]

    @app.job(name="pay")
    def pay(card: str, password: str):
        raise ValueError

    return shown


def test_arguments_are_sent_only_if_the_client_allows_it_and_are_masked(shown):
    with_arguments = shown({"data_collection": {"queues": True}})
    assert with_arguments["arguments"] == {"card": "visa", "password": "***"}
    assert with_arguments["meta"] == {"api_key": "***"}
    assert "arguments" not in shown({})


@pytest.mark.filterwarnings("ignore:The send_default_pii option:DeprecationWarning")
def test_the_older_option_for_personal_data_allows_arguments_too(shown):
    assert "arguments" in shown({"send_default_pii": True})
    assert "arguments" not in shown({"send_default_pii": False})


def test_the_variables_of_our_own_functions_which_contain_the_job_are_not_sent(sentry, app):
    @app.job(name="pay")
    def pay(card: str, password: str):
        raise ValueError

    app.define("pay", {"card": "visa", "password": SECRET}).meta(api_key=SECRET).dispatch()
    work(app)
    (event,) = sentry.events
    assert SECRET not in json.dumps(event)
    last = event["exception"]["values"][0]["stacktrace"]["frames"][-1]
    assert (last["function"], last["vars"]) == ("pay", {"card": "'visa'", "password": "[Filtered]"})


def test_a_job_does_not_see_the_scope_of_another(sentry, app):
    @app.job
    async def tagged(ctx: Context, name: str):
        sentry_sdk.set_tag("own", name)
        sentry_sdk.add_breadcrumb(message=name)
        raise ValueError

    for name in ("a", "b"):
        tagged.enqueue(name)
    work(app)
    assert [event["tags"]["own"] for event in sentry.events] == ["a", "b"]
    crumbs = [[crumb["message"] for crumb in event["breadcrumbs"]["values"]] for event in sentry.events]
    assert crumbs == [["a"], ["b"]]
    assert "own" not in sentry_sdk.get_isolation_scope()._tags


def test_an_app_that_is_instrumented_twice_is_reported_once(sentry, app, run):
    instrument(app)
    run(fail)
    assert (len(sentry.events), len(sentry.transactions)) == (1, 1)
    stored(app, app.define("f").build(), lambda body: body.replace(b'"priority":5', b'"priority":9'))
    work(app)
    assert len(sentry.events) == 2


def test_an_app_may_be_instrumented_before_sentry_starts_and_without_it_jobs_run_as_before(app, run):
    instrument(app)
    run(fail)
    assert app.backend.queues.counts()["default"]["dead"] == 1


def test_a_job_that_is_run_by_hand_is_reported_too(sentry, app):
    app.job(name="f")(fail)
    app.define("f").dispatch()
    manager = app.manager()
    worker = manager.register_worker(["default"])
    job = manager.next_job(["default"], worker)
    with pytest.raises(ValueError, match="no coffee"):
        job.run()
    assert len(sentry.events) == 1


def test_a_server_that_does_not_answer_holds_up_no_job(app, run):
    release = threading.Event()
    silent = Server(lambda connection: release.wait(WAIT_SECONDS))
    client = sentry_sdk.Client(
        dsn=f"http://key@127.0.0.1:{silent.port}/1", default_integrations=False, integrations=[TenureIntegration(app)]
    )
    with sentry_sdk.new_scope() as scope:
        scope.set_client(client)
        run(fail)
    assert app.backend.queues.counts()["default"]["dead"] == 1
    assert not release.is_set()
    release.set()
    client.close(timeout=WAIT_SECONDS)
    silent.close()


@pytest.mark.parametrize("options", [{"report": "some"}, {"exclude_schedules": "nightly"}])
def test_wrong_options_are_refused(options):
    with pytest.raises(SettingsError):
        TenureIntegration(**options)


def test_importing_tenure_imports_no_sentry():
    code = "import sys, tenure; tenure.Tenure('memory://'); print('sentry_sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
