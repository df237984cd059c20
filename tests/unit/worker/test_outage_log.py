"""An outage of the backend is one fact: its beginning and its end are logged once, whichever roles notice it."""

import logging

import pytest

from tenure.errors import BackendUnavailable
from tenure.worker import roles
from tenure.worker.roles import OutageLog

ERROR = BackendUnavailable("the database 'shop' cannot be used: connection refused")
logger = logging.getLogger("tenure.worker.keeper")


@pytest.fixture
def at(monkeypatch):
    """Sets the time."""
    now = [1000.0]
    monkeypatch.setattr(roles.time, "monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, 1000.0 + seconds)


@pytest.fixture
def outage():
    return OutageLog()


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_hundred_failures_of_several_roles_are_two_lines(outage, at, caplog):
    caplog.set_level(logging.DEBUG)
    for tenth in range(100):
        at(tenth / 10)
        outage.failed(logger, "renewing leases" if tenth % 2 else "leasing from emails", ERROR)
    assert outage.is_on
    at(25)
    outage.answered()
    assert not outage.is_on
    assert warnings(caplog) == [
        f"leasing from emails failed, trying again: {ERROR}",
        "the backend answers again, after 25 s",
    ]
    assert len(caplog.records) == 101  # the rest at the level debug


def test_an_answer_beside_a_failure_does_not_end_an_outage(outage, at, caplog):
    outage.failed(logger, "renewing leases", ERROR)
    at(0.5)
    outage.answered()
    assert outage.is_on
    assert len(warnings(caplog)) == 1


def test_a_backend_that_fails_again_and_again_is_reported_every_ten_seconds(outage, at, caplog):
    for second in range(0, 40, 2):
        at(second)
        outage.failed(logger, "renewing leases", ERROR)
        at(second + 1.5)
        outage.answered()
    assert len(warnings(caplog)) == 8  # at 0, 12, 24 and 36, each with its end
