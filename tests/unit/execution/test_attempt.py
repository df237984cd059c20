"""One attempt: a payload and a handler in, an outcome out, whatever the handler does."""

# ruff: noqa: T201 - handlers print, and that is looked at

import asyncio
import logging
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Cancel, Context, Fail, Postpone, Retry, Snooze, current_context
from tenure.errors import Refused
from tenure.execution.attempt import Performer
from tenure.execution.inline import InlineRunner
from tenure.worker.inbox import Inbox
from tests.support.call_counter import calls_of

NOW = 1_893_456_000_000_000


@dataclass
class Picky:
    name: str

    def __post_init__(self):
        raise KeyError(self.name)


class Hooked:
    """Tells what was called on it, and fails where it is told to."""

    calls: list[str] = []  # noqa: RUF012 - emptied by a fixture
    fails_in: str | None = None

    def before_run(self, context):
        self._call("before_run")

    def handle(self):
        self._call("handle")
        return "done"

    def after_run(self, context, outcome):
        Hooked.calls.append(f"after_run {outcome.kind}")
        if self.fails_in == "after_run":
            raise ValueError("in after_run")

    def _call(self, name):
        Hooked.calls.append(name)
        if self.fails_in == name:
            raise ValueError(f"in {name}")


@pytest.fixture
def hooked():
    Hooked.calls.clear()
    return lambda fails_in=None: type("Failing", (Hooked,), {"fails_in": fails_in})


def test_success_carries_the_output_and_how_long_it_took(perform):
    def job(a: int, b: int):
        return a + b

    outcome = perform(job, b'{"a":1,"b":2}')

    assert (outcome.kind, outcome.output, outcome.failure) == ("succeeded", "3", None)
    assert outcome.started == NOW
    assert 0 <= outcome.seconds < 60


def test_what_is_printed_follows_what_is_returned(perform):
    def job():
        print("working")
        return "done"

    assert perform(job).output == "done\nworking\n"


def test_a_failure_keeps_type_message_place_and_trace(perform):
    def job():
        print("dropped")
        raise ValueError("no such user")

    outcome = perform(job, number=3)

    assert (outcome.kind, outcome.output) == ("failed", None)
    assert (outcome.failure.type, outcome.failure.message) == ("ValueError", "no such user")
    assert (outcome.failure.attempt, outcome.failure.at) == (3, NOW)
    assert "test_attempt.py:" in outcome.failure.place
    assert "Traceback" in outcome.failure.trace


def test_a_failure_can_always_be_stored_as_utf8(perform):
    def job():
        raise ValueError("\ud800")

    assert perform(job).failure.message == "\\ud800"


def test_a_long_message_is_cut(perform):
    def job():
        raise ValueError("a" * 100_000)

    failure = perform(job).failure

    assert len(failure.message) == 2_000
    assert len(failure.trace) < 9_000


def test_an_exception_that_cannot_be_printed_is_still_a_failure(perform):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def job():
        raise Mute

    assert perform(job).failure.message == "(unprintable: RuntimeError)"


def test_ending_the_process_is_a_failure(perform):
    def job():
        sys.exit(3)

    outcome = perform(job)

    assert (outcome.kind, outcome.failure.type) == ("failed", "SystemExit")


@pytest.mark.parametrize("payload", [b'{"a":"one"}', b"{}", b'{"a":1,"b":2}', b"[]", b"null", b'{"a":"\xff"}'])
def test_a_payload_that_does_not_fit_never_reaches_the_handler(perform, payload):
    called = []

    def job(a: int):
        called.append(a)

    outcome = perform(job, payload)

    assert outcome.kind == "unfit"
    assert outcome.failure is not None
    assert called == []


def test_a_declared_type_that_refuses_its_value_makes_the_payload_unfit(perform):
    def job(pet: Picky): ...

    outcome = perform(job, b'{"pet":{"name":"Tom"}}')

    assert (outcome.kind, outcome.failure.type) == ("unfit", "KeyError")


def test_code_that_runs_past_its_timeout_is_stopped(perform):
    def job():
        while True:
            time.sleep(0.001)

    outcome = perform(job, timeout=0.05)

    assert outcome.kind == "timed_out"
    assert (outcome.failure.type, outcome.failure.message) == (
        "TimedOut",
        "the attempt ran past its timeout of 0.05 s",
    )
    assert outcome.seconds >= 0.05


def test_a_handler_that_catches_every_exception_is_stopped_all_the_same(perform):
    def job():
        while True:
            with suppress(Exception):
                time.sleep(0.001)

    assert perform(job, timeout=0.05).kind == "timed_out"


def test_a_job_that_ends_in_time_is_not_stopped(perform):
    def job():
        return "done"

    assert perform(job, timeout=60).kind == "succeeded"


def test_a_coroutine_is_awaited(perform):
    async def job(a: int):
        await asyncio.sleep(0)
        return a + 1

    assert perform(job, b'{"a":1}').output == "2"


def test_a_coroutine_that_waits_past_its_timeout_is_cancelled(perform):
    cleaned = []

    async def job():
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    outcome = perform(job, timeout=0.05)

    assert (outcome.kind, cleaned) == ("timed_out", [True])


def test_a_timeout_inside_a_coroutine_is_its_own_failure(perform):
    async def job():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    outcome = perform(job, timeout=60)

    assert (outcome.kind, outcome.failure.type) == ("failed", "TimeoutError")


def test_coroutines_of_one_performer_share_a_loop(clock, attempt_at):
    async def job():
        return id(asyncio.get_running_loop())

    with Performer(clock) as performer:
        outputs = {performer.perform(attempt_at(job)).output for _ in range(3)}

    assert len(outputs) == 1


def test_a_coroutine_is_awaited_beside_a_loop_that_runs_in_the_same_thread(clock, attempt_at):
    async def job():
        await asyncio.sleep(0)
        return "done"

    async def caller():
        with Performer(clock) as performer:
            return [performer.perform(attempt_at(job, timeout=timeout)).output for timeout in (None, 60)]

    assert asyncio.run(caller()) == ["done", "done"]


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (None, None),
        (0, 0.0),
        (2.5, 2.5),
        ("10m", 600.0),
        (timedelta(minutes=1), 60.0),
        (datetime(2030, 1, 1, 0, 5, tzinfo=UTC), 300.0),
        (-5, 0.0),
    ],
)
def test_a_handler_may_ask_for_a_retry_and_say_when(perform, delay, seconds):
    def job():
        raise Retry("not yet", delay=delay)

    outcome = perform(job)

    assert (outcome.kind, outcome.delay, outcome.failure.message) == ("retry", seconds, "not yet")


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        (30, 30.0),
        ("10m", 600.0),
        (timedelta(hours=1), 3600.0),
        (datetime(2030, 1, 1, 0, 5, tzinfo=UTC), 300.0),
        (datetime(2029, 12, 31, tzinfo=UTC), 0.0),
        (-5, 0.0),
        (timedelta(seconds=-5), 0.0),
    ],
)
def test_a_handler_may_postpone_itself(perform, until, seconds):
    def job():
        raise Snooze(until, "the shop is closed")

    outcome = perform(job)

    assert (outcome.kind, outcome.delay, outcome.reason) == ("postponed", seconds, "the shop is closed")


@pytest.mark.parametrize("wrong", [datetime(2030, 1, 1), "later", float("nan"), float("inf"), [5]])
@pytest.mark.parametrize("make", [Snooze, lambda until: Retry(delay=until)])
def test_a_time_that_cannot_be_waited_for_is_a_failure_that_says_so(perform, make, wrong):
    def job():
        raise make(wrong)

    outcome = perform(job)

    assert (outcome.kind, outcome.failure.type) == ("failed", "InvalidJob")


def test_snooze_was_called_postpone():
    assert Postpone is Snooze


@pytest.mark.parametrize(("facts", "reason"), [({}, "gave_up"), ({"reason": "no_such_user"}, "no_such_user")])
def test_a_handler_may_fail_for_good(perform, facts, reason):
    def job():
        raise Fail("the user was deleted", **facts)

    outcome = perform(job, max_retries=5)

    assert (outcome.kind, outcome.reason, outcome.delay) == ("failed", reason, None)
    assert (outcome.failure.type, outcome.failure.message) == ("Fail", "the user was deleted")


def test_a_job_that_is_not_permitted_is_unfit(perform):
    def job():
        raise Refused("the settings do not name it")

    outcome = perform(job)

    assert (outcome.kind, outcome.reason, outcome.failure.type) == ("unfit", "forbidden", "Refused")


def test_a_handler_may_cancel_itself(perform):
    def job():
        raise Cancel("the order was withdrawn")

    outcome = perform(job)

    assert (outcome.kind, outcome.reason, outcome.failure) == ("cancelled", "the order was withdrawn", None)


def test_the_context_tells_about_the_job(perform):
    seen = []

    def job(context: Context, a: int):
        seen.append(context)

    perform(job, b'{"a":1}', number=2, timeout=60, name="nightly", queue="slow", max_retries=3, meta={"tenant": "a"})

    (context,) = seen
    assert (context.id, context.handler, context.queue, context.name) == ("id-1", "job", "slow", "nightly")
    assert (context.attempt, context.crashes, context.fence, context.max_retries) == (2, 0, 1, 3)
    assert context.meta == {"tenant": "a"}
    assert 50 < context.time_left <= 60


def test_without_a_timeout_the_time_left_is_unknown(perform):
    seen = []

    def job(context: Context):
        seen.append(context.time_left)

    perform(job)

    assert seen == [None]


def test_the_context_is_at_hand_anywhere_inside_a_job(perform):
    def job():
        return current_context().id

    assert perform(job).output == "id-1"


def test_the_context_is_at_hand_inside_a_coroutine(perform):
    async def job():
        return current_context().id

    assert perform(job).output == "id-1"


def test_outside_a_job_there_is_no_context(perform):
    perform(lambda: None)

    with pytest.raises(LookupError, match=r"no job is running here: current_context\(\) works inside a handler only"):
        current_context()


def test_hooks_are_called_around_the_handler(perform, hooked):
    outcome = perform(hooked())

    assert outcome.output == "done"
    assert Hooked.calls == ["before_run", "handle", "after_run succeeded"]


def test_a_failing_before_run_fails_the_attempt_without_calling_the_handler(perform, hooked):
    outcome = perform(hooked("before_run"))

    assert (outcome.kind, outcome.failure.message) == ("failed", "in before_run")
    assert Hooked.calls == ["before_run", "after_run failed"]


def test_after_run_sees_a_failure(perform, hooked):
    perform(hooked("handle"))

    assert Hooked.calls == ["before_run", "handle", "after_run failed"]


def test_a_failing_after_run_changes_nothing(perform, hooked, caplog):
    with caplog.at_level(logging.ERROR):
        outcome = perform(hooked("after_run"))

    assert (outcome.kind, outcome.output) == ("succeeded", "done")
    assert "after_run of handler 'job' failed; the outcome stands" in caplog.text


class AsyncHooked(Hooked):
    async def before_run(self, context):
        await asyncio.sleep(0)
        Hooked.before_run(self, context)

    async def after_run(self, context, outcome):
        await asyncio.sleep(0)
        Hooked.after_run(self, context, outcome)


@pytest.mark.parametrize(
    ("fails_in", "calls", "kind"),
    [
        (None, ["before_run", "handle", "after_run succeeded"], "succeeded"),
        ("before_run", ["before_run", "after_run failed"], "failed"),
        ("handle", ["before_run", "handle", "after_run failed"], "failed"),
        ("after_run", ["before_run", "handle", "after_run succeeded"], "succeeded"),
    ],
)
def test_async_hooks_of_a_plain_handler_are_awaited(perform, hooked, fails_in, calls, kind):
    hooked()
    outcome = perform(type("Failing", (AsyncHooked,), {"fails_in": fails_in}))

    assert (outcome.kind, Hooked.calls) == (kind, calls)


def test_every_attempt_gets_a_fresh_instance(clock, attempt_at):
    class Counting:
        count = 0

        def handle(self):
            self.count += 1
            return self.count

    attempt = attempt_at(Counting)
    with Performer(clock) as performer:
        outputs = [performer.perform(attempt).output for _ in range(2)]

    assert outputs == ["1", "1"]


def test_a_class_that_cannot_be_built_is_a_failure(perform):
    class Demanding:
        def __init__(self, database): ...

        def handle(self): ...

    outcome = perform(Demanding)

    assert (outcome.kind, outcome.failure.type) == ("failed", "TypeError")


def test_the_inline_runner_serves_until_the_source_is_over(clock, attempt_at):
    def job(a: int):
        return a * 2

    source, done = Inbox(1, on_idle=lambda: None, admit=list), []
    source.fill([attempt_at(job, b'{"a":1}'), attempt_at(job, b'{"a":2}')])
    source.close()

    InlineRunner(clock).serve(source, lambda attempt, outcome: done.append(outcome.output))

    assert done == ["2", "4"]


def test_a_plain_attempt_makes_twelve_calls_and_no_system_call(clock, attempt_at):
    def job(a: int): ...

    attempt = attempt_at(job, b'{"a":1}')
    with Performer(clock) as performer:
        performer.perform(attempt)
        calls, in_c = calls_of(lambda: performer.perform(attempt))

    assert calls.total() <= 12, calls
    assert "getpid" not in in_c
