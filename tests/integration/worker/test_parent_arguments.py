"""Follow-up jobs that take the result, or the error, of the job before them."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tenure import PARENT_ERROR, PARENT_RESULT, Cancel, Context, Tenure
from tenure.errors import InvalidHandler, InvalidJob, InvalidPayload, InvalidSchedule
from tenure.testing import FakeClock, run_due

pytestmark = pytest.mark.timeout(60, method="thread")  # the runner needs the alarm that the other method uses


@dataclass
class Invoice:
    number: int
    total: float


class Receipt(msgspec.Struct):
    invoice: Invoice


@pytest.fixture
def told():
    return []


@pytest.fixture
def app():
    with Tenure("memory://", clock=FakeClock()) as app:
        yield app


@pytest.fixture
def bill(app):
    @app.job
    def bill(order: int) -> Invoice:
        return Invoice(order, 9.5)

    return bill


@pytest.fixture
def notify(app, told):
    @app.job
    def notify(user: str, invoice: Invoice = PARENT_RESULT) -> None:
        told.append((user, invoice))

    return notify


def run(app):
    while run_due(app):
        pass


def dead(app):
    return [(letter.handler, letter.reason, letter.failures[-1].message) for letter in app.backend.dead_letters.page()]


def test_a_follower_gets_the_result_as_the_type_that_it_declares(app, bill, notify, told):
    bill.using(then=notify.build(user="ada")).enqueue(order=7)
    run(app)

    assert told == [("ada", Invoice(7, 9.5))]


def test_a_follower_that_needs_nothing_else_is_given_as_the_function_itself(app, bill, told):
    @app.job
    def archive(ctx: Context, *, invoice: Invoice = PARENT_RESULT) -> None:
        told.append((ctx.meta["parent"]["state"], invoice.number))

    bill.using(then=archive).enqueue(order=7)
    app.define("bill", {"order": 8}).then(archive).dispatch()
    run(app)

    assert told == [("done", 7), ("done", 8)]


def test_each_job_of_a_chain_gets_the_result_of_the_one_before(app, told):
    @app.job
    def start() -> int:
        return 1

    @app.job
    def double(number: int = PARENT_RESULT) -> int:
        told.append(number)
        return number * 2

    start.using(chain=[double, double, double]).enqueue()
    run(app)

    assert told == [1, 2, 4]


@pytest.mark.parametrize(
    "value", [None, "text", "", 'with "quotes"\n', 7, 2.5, True, [1, [2]], {"a": {"b": None}}, "\N{SNOWMAN}"]
)
def test_every_plain_result_arrives_as_it_was_returned_whatever_the_job_printed(app, told, value):
    @app.job
    def give() -> Any:
        print("some text")  # noqa: T201 - what is tested
        return value

    @app.job
    def silent() -> Any:
        return value

    @app.job
    def take(result: Any = PARENT_RESULT) -> None:
        told.append(result)

    give.using(then=take).enqueue()
    silent.using(then=take).enqueue()
    run(app)

    assert told == [value, value]


def test_a_given_argument_wins_over_the_result(app, bill, notify, told):
    bill.using(then=notify.build(user="ada", invoice=Invoice(1, 2))).enqueue(order=7)
    run(app)

    assert told == [("ada", Invoice(1, 2))]


def test_a_result_that_does_not_fit_makes_a_dead_letter_of_the_follower_alone(app, notify, told):
    @app.job
    def text() -> str:
        return "no invoice"

    id = text.using(then=notify.build(user="ada")).enqueue()
    run(app)

    assert app.backend.jobs.find(id).state == "done"
    assert dead(app) == [("notify", "invalid_payload", "Expected `object`, got `str` - at `$.invoice`")]
    assert told == []


def test_a_result_that_json_cannot_carry_is_named_in_the_dead_letter(app, told):
    @app.job
    def give() -> object:
        return object()

    @app.job
    def take(result: Any = PARENT_RESULT) -> None:
        told.append(result)

    give.using(then=take).enqueue()
    run(app)

    ((handler, reason, message),) = dead(app)
    assert (handler, reason) == ("take", "invalid_payload")
    assert "cannot take the result of its parent: JSON cannot carry it" in message
    assert told == []


@pytest.mark.parametrize("length", [1001, 100_000])
def test_a_result_that_was_cut_is_not_passed_on(told, length):
    with Tenure("memory://", max_output=1000) as app:

        @app.job
        def give() -> str:
            return "x" * (length - 2)

        @app.job
        def take(result: str = PARENT_RESULT) -> None:
            told.append(result)

        give.using(then=take).enqueue()
        run(app)

        ((handler, _, message),) = dead(app)
        assert handler == "take"
        assert "characters, more than the 1000 of the setting max_output; store it elsewhere" in message
        assert told == []


def test_a_long_print_does_not_cut_the_result(told):
    with Tenure("memory://", max_output=1000) as app:

        @app.job
        def give() -> str:
            print("x" * 100_000)  # noqa: T201 - what is tested
            return "short"

        @app.job
        def take(result: str = PARENT_RESULT) -> None:
            told.append(result)

        give.using(then=take).enqueue()
        run(app)

    assert told == ["short"]


def test_a_result_that_makes_the_message_too_large_is_named_in_the_dead_letter(told):
    with Tenure("memory://", max_bytes=2000) as app:

        @app.job
        def give() -> str:
            return "x" * 3000

        @app.job
        def take(result: str = PARENT_RESULT) -> None:
            told.append(result)

        id = give.using(then=take).enqueue()
        run(app)

        assert app.backend.jobs.find(id).state == "done"
        ((_, _, message),) = dead(app)
        assert "above the limit of 2000" in message
        assert told == []


def test_on_failure_gives_the_error(app, told):
    @app.job
    def fail() -> None:
        raise ValueError("no luck")

    @app.job
    def alert(who: str, error: str = PARENT_ERROR) -> None:
        told.append((who, error))

    fail.using(on_failure=alert.build("ada")).enqueue()
    run(app)

    assert told == [("ada", "ValueError: no luck")]


def test_finally_gives_both_and_null_for_what_there_is_not(app, told):
    @app.job
    def act(how: str) -> int:
        if how == "fail":
            raise ValueError(how)
        if how == "cancel":
            raise Cancel("no need")
        return 7

    @app.job
    def log(result: int | None = PARENT_RESULT, error: str | None = PARENT_ERROR) -> None:
        told.append((result, error))

    for how in ("succeed", "fail", "cancel"):
        act.using(finally_=log).enqueue(how)
    run(app)

    assert sorted(told, key=str) == [(7, None), (None, "ValueError: fail"), (None, "no need")]


def test_the_on_dead_job_may_take_the_error(told):
    with Tenure("memory://", on_dead="alert") as app:

        @app.job
        def fail() -> None:
            raise ValueError("no luck")

        @app.job
        def alert(error: str = PARENT_ERROR) -> None:
            told.append(error)

        fail.enqueue()
        run(app)

    assert told == ["ValueError: no luck"]


def test_a_job_that_follows_no_other_must_be_given_the_argument(app, notify, told):
    with pytest.raises(InvalidPayload, match="takes 'invoice' from the job that it follows; enqueue it with then="):
        notify.enqueue(user="ada")
    with pytest.raises(InvalidPayload, match="takes 'invoice' from the job that it follows"):
        app.enqueue_many([notify.build(user="ada")])
    app.schedule(notify, user="ada").daily()
    with pytest.raises(InvalidSchedule, match="takes 'invoice' from the job that it follows"):
        app.schedules.all()
    notify.enqueue(user="ada", invoice=Invoice(1, 2))
    run(app)

    assert told == [("ada", Invoice(1, 2))]


def test_what_an_end_cannot_give_is_refused_when_the_job_is_enqueued(app, bill, notify):
    @app.job
    def alert(error: str = PARENT_ERROR) -> None: ...

    with pytest.raises(InvalidJob, match="takes 'invoice' from its parent, and a job in on_failure cannot have it"):
        bill.using(on_failure=notify.build("ada")).enqueue(1)
    with pytest.raises(InvalidJob, match="takes 'error' from its parent, and a job in then cannot have it"):
        bill.using(then=alert).enqueue(1)


def test_the_other_arguments_of_a_follower_are_checked_when_the_first_job_is_enqueued(app, bill, notify):
    with pytest.raises(InvalidPayload, match="does not fit"):
        bill.using(then=notify.build(user=7)).enqueue(1)


def test_two_parameters_for_the_same_value_are_refused(app):
    with pytest.raises(InvalidHandler, match="takes the same value from its parent twice"):

        @app.job
        def take(one: int = PARENT_RESULT, two: int = PARENT_RESULT) -> None: ...


def test_a_replayed_follower_runs_with_the_same_result(app, bill, told):
    @app.job
    def take(ctx: Context, invoice: Invoice = PARENT_RESULT) -> None:
        told.append(invoice.number)
        if len(told) == 1:
            raise ValueError("not yet")

    bill.using(then=take).enqueue(order=7)
    run(app)
    (letter,) = app.backend.dead_letters.page()
    app.dead_letters().replay([letter.id])
    run(app)

    assert told == [7, 7]


def test_a_follower_may_be_async(app, bill, told):
    @app.job
    async def take(invoice: Invoice = PARENT_RESULT) -> Receipt:
        told.append(invoice.number)
        return Receipt(invoice)

    @app.job
    def last(receipt: Receipt = PARENT_RESULT) -> None:
        told.append(receipt)

    bill.using(chain=[take, last]).enqueue(order=7)
    run(app)

    assert told == [7, Receipt(Invoice(7, 9.5))]


def test_a_manual_worker_passes_the_result_on(app, bill, notify, told):
    bill.using(then=notify.build(user="ada")).enqueue(order=7)
    manager = app.manager()
    worker = manager.register_worker(["default"])
    job = manager.next_job(["default"], worker)
    manager.mark_complete(job, job.run())
    run(app)

    assert told == [("ada", Invoice(7, 9.5))]
