"""`app.dead_letters()`: finding, replaying, deleting and storing dead letters from an app's own code."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Tenure
from tenure.errors import BackendError, BackendUnavailable, InvalidJob, InvalidPayload, UnknownHandler
from tenure.testing import run_due

pytestmark = pytest.mark.timeout(120, method="thread")  # the runner needs the alarm that the other method uses


@pytest.fixture
def add(app):
    @app.job(queue="sums", max_retries=3)
    def add(a: int, b: int = 1) -> int:
        return a + b

    return add


def test_a_stored_letter_is_kept_with_reason_attempts_and_time(app, add, clock):
    id = app.dead_letters().store({"a": 1}, "add", "the bank refused it", attempts=4)
    (letter,) = app.dead_letters().find()
    assert (letter.id, letter.queue, letter.handler) == (id, "sums", "add")
    assert (letter.reason, letter.attempts, letter.finished_at) == ("the bank refused it", 4, clock.now())
    assert run_due(app, "sums") == {}


def test_a_stored_letter_runs_when_it_is_replayed(app, add):
    id = app.dead_letters().store({"a": 1}, "add", "too early")
    assert app.dead_letters().replay([id, "nonsense"]) == [id]
    assert run_due(app) == {"acked": 1}
    assert app.backend.jobs.find(id).output == "2"


@pytest.mark.parametrize(
    ("payload", "handler", "error"), [({"a": 1}, "nonsense", UnknownHandler), ({"a": "one"}, "add", InvalidPayload)]
)
def test_what_could_never_run_is_not_stored(app, add, payload, handler, error):
    with pytest.raises(error):
        app.dead_letters().store(payload, handler, "by hand")
    assert list(app.dead_letters().find()) == []


def test_a_letter_that_cannot_be_stored_is_critical_counted_and_raised(app, add, caplog):
    def refuse(burials):
        raise BackendUnavailable("gone")

    app.backend.dead_letters.add = refuse
    with pytest.raises(BackendUnavailable, match="gone"):
        app.dead_letters().store({"a": 1}, "add", "by hand")
    assert app.metrics.snapshot()["counters"] == {"jobs_dlq_failed|queue=sums": 1}
    assert [(each.levelno, "could not be stored: gone" in each.message) for each in caplog.records] == [
        (logging.CRITICAL, True)
    ]


def test_letters_are_found_by_reason_and_age_and_then_discarded(app, add, clock):
    letters = app.dead_letters()
    old = letters.store({"a": 1}, "add", "old")
    clock.advance(3600)
    young = letters.store({"a": 2}, "add", "young")
    an_hour_ago = datetime.fromtimestamp(clock.now() / 1e6, UTC) - timedelta(minutes=59)
    assert [letter.id for letter in letters.find(since=an_hour_ago)] == [young]
    assert [letter.id for letter in letters.find(before=an_hour_ago)] == [old]
    assert [letter.id for letter in letters.find(reason="old", handler="add", queue="sums")] == [old]
    assert letters.discard(letter.id for letter in letters.find()) == [old, young]


def test_a_time_without_a_zone_is_refused(app):
    with pytest.raises(InvalidJob, match="since has no time zone"):
        app.dead_letters().find(since=datetime(2030, 1, 1))


def test_a_backend_without_dead_letters_says_so():
    with pytest.raises(BackendError, match="has no dead letters"):
        Tenure("sync://").dead_letters()
