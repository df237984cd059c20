"""retry_on and give_up_on: which errors of a handler are worth a retry."""

from functools import partial

import pytest

from tenure import Cancel, Fail, Retry, Snooze, Tenure
from tenure.definition.error_rules import error_rules
from tenure.errors import Cancelled, CircuitOpen, DeadlineExceeded, InvalidHandler, RequestFailed, StopNow, TenureError


def gives_up(error, retry_on=None, give_up_on=None):
    return error_rules("send", retry_on, give_up_on).gives_up(error)


def is_gone(error):
    return isinstance(error, RequestFailed) and error.status == 404


def fails(error):
    raise AttributeError(f"{type(error).__name__} has no status")


GONE, BUSY = RequestFailed("gone", 404), RequestFailed("busy", 503)


def test_a_handler_without_rules_has_none():
    assert error_rules("send", None, None) is None


@pytest.mark.parametrize("rule", [ConnectionError, (KeyError, ConnectionError), [OSError], {ConnectionError}])
def test_an_error_to_give_up_on_is_one_of_the_classes_or_below_them(rule):
    assert gives_up(ConnectionResetError(), give_up_on=rule)
    assert not gives_up(ValueError(), give_up_on=rule)


@pytest.mark.parametrize("rule", [ConnectionError, (KeyError, ConnectionError), [OSError], {ConnectionError}])
def test_with_errors_to_retry_every_other_error_gives_up(rule):
    assert not gives_up(ConnectionResetError(), retry_on=rule)
    assert gives_up(ValueError(), retry_on=rule)
    assert gives_up(SystemExit(1), retry_on=rule)


def test_without_any_class_to_retry_every_error_gives_up():
    assert gives_up(ValueError(), retry_on=())


def test_giving_up_wins_over_retrying():
    assert gives_up(ConnectionResetError(), retry_on=OSError, give_up_on=ConnectionError)
    assert not gives_up(TimeoutError(), retry_on=OSError, give_up_on=ConnectionError)
    assert gives_up(KeyError(), retry_on=OSError, give_up_on=ConnectionError)


@pytest.mark.parametrize("rule", [is_gone, lambda error: is_gone(error), partial(is_gone)])
def test_a_function_may_decide(rule):
    assert (gives_up(GONE, give_up_on=rule), gives_up(BUSY, give_up_on=rule)) == (True, False)
    assert (gives_up(GONE, retry_on=rule), gives_up(BUSY, retry_on=rule)) == (False, True)


def test_any_value_of_a_function_counts_as_true_or_false():
    assert gives_up(ValueError("x"), give_up_on=lambda error: error.args)
    assert not gives_up(ValueError(), give_up_on=lambda error: error.args)


@pytest.mark.parametrize("rule", [fails, lambda error: (each for each in ()), lambda error: exit(1)])
@pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
def test_a_function_that_fails_is_logged_and_the_error_is_an_ordinary_one(caplog, rule, option):
    assert not gives_up(ValueError(), **{option: rule})

    (record,) = caplog.records
    assert record.getMessage() == (
        "retry_on or give_up_on of handler 'send' failed over a ValueError; the attempt counts as an ordinary failure"
    )
    assert record.exc_info is not None


MIXED = ExceptionGroup("both", [ConnectionError(), ExceptionGroup("inner", [ValueError(), TimeoutError()])])
LOST = ExceptionGroup("lost", [ConnectionError(), ExceptionGroup("inner", [TimeoutError()])])


def test_of_a_group_one_error_to_give_up_on_is_enough():
    assert gives_up(MIXED, give_up_on=ValueError)
    assert not gives_up(LOST, give_up_on=ValueError)
    assert gives_up(ExceptionGroup("gone", [BUSY, GONE]), give_up_on=is_gone)


def test_of_a_group_each_error_must_be_one_to_retry():
    assert not gives_up(LOST, retry_on=OSError)
    assert gives_up(MIXED, retry_on=OSError)


def test_a_group_may_match_as_a_whole():
    assert not gives_up(MIXED, retry_on=ExceptionGroup)
    assert gives_up(MIXED, give_up_on=ExceptionGroup)


@pytest.mark.parametrize("error", [CircuitOpen("open")])
def test_an_error_that_says_what_happens_is_not_matched(error):
    assert not gives_up(error, retry_on=OSError, give_up_on=TenureError)


@pytest.mark.parametrize("cls", [Retry, Fail, Snooze, Cancel, CircuitOpen, DeadlineExceeded, Cancelled, StopNow])
@pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
def test_a_class_that_says_what_happens_is_refused(cls, option):
    with pytest.raises(InvalidHandler, match=f"{option} of 'send' names {cls.__name__}, which cannot be matched"):
        Tenure("memory://").job(name="send", max_retries=1, **{option: (ValueError, cls)})(lambda: None)


async def asks_later(error): ...


def yields(error):
    yield True


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("ConnectionError", "must be exception classes, or a function of the error, got 'ConnectionError'"),
        (404, "must be exception classes, or a function of the error, got 404"),
        (int, "must be exception classes, or a function of the error, got <class 'int'>"),
        ([ValueError()], "must be exception classes, or a function of the error, got ValueError()"),
        (lambda: True, r"must take one argument, the error; it takes \(\)"),
        (lambda self, error: True, r"must take one argument, the error; it takes \(self, error\)"),
        (asks_later, "is async, and nothing awaits it"),
        (yields, "is a generator function"),
    ],
)
def test_what_matches_no_error_is_refused(rule, message):
    with pytest.raises(InvalidHandler, match=message.replace("ValueError()", r"ValueError\(\)")):
        error_rules("send", rule, None)


@pytest.mark.parametrize("options", [{}, {"max_retries": 0}])
def test_errors_to_retry_without_retries_are_refused(options):
    with pytest.raises(InvalidHandler, match="handler 'send' has retry_on, but its jobs have no retries"):
        Tenure("memory://").job(name="send", retry_on=OSError, **options)(lambda: None)


def test_errors_to_retry_take_the_retries_of_the_settings():
    app = Tenure("memory://", max_retries=2)
    app.job(name="send", retry_on=OSError)(lambda: None)

    assert app.registry.get("send").defaults["max_retries"] == 2


def test_errors_to_give_up_on_need_no_retries():
    Tenure("memory://").job(give_up_on=OSError)(is_gone)


class Report:
    max_retries = 3
    retry_on = ConnectionError

    @staticmethod
    def give_up_on(error):
        return isinstance(error, ConnectionResetError)

    def handle(self): ...


def test_attributes_of_a_handler_class_are_rules():
    app = Tenure("memory://")
    app.register("report", Report)
    app.register("other", Report, retry_on=KeyError)
    report, other = (app.registry.get(key).errors for key in ("report", "other"))

    assert [report.gives_up(error()) for error in (BrokenPipeError, ConnectionResetError, KeyError)] == [
        False, True, True,
    ]  # fmt: skip
    assert [other.gives_up(error()) for error in (BrokenPipeError, ConnectionResetError, KeyError)] == [
        True, True, False,
    ]  # fmt: skip


def test_a_class_with_errors_to_retry_and_without_retries_is_refused():
    with pytest.raises(InvalidHandler, match="handler 'report' has retry_on, but its jobs have no retries"):
        Tenure("memory://").register("report", Report, max_retries=0)
