"""A schedule in sentences."""

import pytest

from tenure.cron.describe import describe, explain, never_together
from tenure.cron.schedule import Daylight, Misfire


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * *", "At 02:00 every day"),
        ("*/5 9-17 * * 1-5", "Every fifth minute from 09:00 through 17:59 on Monday through Friday"),
        ("0 0 15W * *", "When 0 0 15W * * is due"),
    ],
)
def test_an_expression_is_put_into_words(expression, words):
    assert describe(expression) == words


@pytest.mark.parametrize(
    ("fields", "topic", "sentence"),
    [
        ({}, "missing times", "follows real time: a time that a clock change skips is skipped"),
        ({}, "repeated times", "follows real time: a time that the clock shows twice runs twice"),
        ({"cron": "0 2 * * *"}, "missing times", "runs right after the clock has jumped"),
        ({"cron": "0 2 * * *"}, "repeated times", "runs the first time only"),
        ({"daylight": Daylight(repeated="second")}, "repeated times", "runs the second time only"),
        ({}, "missed ticks", "runs those up to 60 s late, and drops the rest"),
        ({"misfire": Misfire("latest")}, "missed ticks", "runs the last one, however late"),
        ({"misfire": Misfire("all", limit=5, age=3600)}, "missed ticks", "runs the last 5, none older than 3600 s"),
        ({}, "overlap", "a tick starts even while earlier ones have not ended"),
        ({"overlap": "skip"}, "overlap", "a tick is skipped while an earlier one has not ended"),
        ({"overlap": "queue_one"}, "overlap", "one tick waits while an earlier one has not ended, others are skipped"),
        ({"jitter": 90.0}, "jitter", "each tick runs up to 90 s later"),
        ({}, "runs", "on queue 'default'"),
        ({"inline": True}, "runs", "in the scheduler, for one attempt"),
        ({"job": {"depends_on": ("load",)}}, "depends on", "'load': runs after they succeeded in the same tick"),
    ],
)
def test_what_a_schedule_does_is_told_in_sentences(schedule, fields, topic, sentence):
    assert explain(schedule(**fields), "production")[topic] == sentence


def test_what_was_not_asked_for_is_not_told(schedule):
    assert {"jitter", "starts", "ends", "depends on", "not here"}.isdisjoint(explain(schedule(), "production"))


def test_why_a_schedule_does_not_run_here_is_told(schedule):
    assert explain(schedule(job={"enabled": False}), "production")["not here"] == "disabled"


def test_a_dependency_that_is_never_due_together_is_a_warning(schedule, at):
    load = schedule("0 1 * * *", "load")
    report = schedule("0 2 * * *", job={"depends_on": ("load",)})

    assert never_together(report, [load, report], at(1, 1)) == (
        "'load' is not due at any of the next 100 ticks, so they do not wait for it"
    )


def test_a_dependency_that_is_due_together_at_times_is_no_warning(schedule, at):
    load = schedule("0 0 * * *", "load")
    report = schedule("0 * * * *", job={"depends_on": ("load",)})

    assert never_together(report, [load, report], at(1, 1)) is None
