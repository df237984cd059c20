"""A schedule: its ticks, its bounds, its jitter, and the job of each tick."""

import re
from datetime import UTC, datetime

import pytest

from tenure.errors import InvalidSchedule

SECOND = 1_000_000


def test_a_schedule_without_a_frequency_is_refused(schedule):
    with pytest.raises(InvalidSchedule, match="schedule 'report' does not say when it is due"):
        schedule(None)


def test_ticks_follow_the_zone_of_the_schedule(schedule, at):
    assert schedule("0 2 * * *", timezone="Asia/Tokyo").after(at(1, 1)) == at(1, 1, 17)


def test_no_tick_lies_before_the_start(schedule, at):
    found = schedule("@daily", starts_at=datetime(2026, 3, 5, tzinfo=UTC))

    assert found.after(at(1, 1)) == at(3, 5)
    assert found.before(at(3, 6)) == at(3, 5)
    assert found.before(at(3, 5)) is None


def test_no_tick_lies_at_the_end_or_later(schedule, at):
    found = schedule("@daily", ends_at=datetime(2026, 3, 5, tzinfo=UTC))

    assert found.after(at(3, 3)) == at(3, 4)
    assert found.after(at(3, 4)) is None
    assert found.before(at(6, 1)) == at(3, 4)


def test_the_tick_of_a_moment_is_that_of_its_minute(schedule, at):
    found = schedule("30 * * * *")

    assert found.tick_of(at(1, 1, 5, 30, 59)) == at(1, 1, 5, 30)
    assert found.tick_of(at(1, 1, 5, 31)) is None


def test_jitter_is_the_same_for_one_tick_everywhere(schedule, at):
    first, second = schedule("@hourly", jitter=600.0), schedule("@hourly", jitter=600.0)

    assert first.due_at(at(1, 1, 5)) == second.due_at(at(1, 1, 5)) != at(1, 1, 5)


def test_jitter_differs_from_tick_to_tick_and_from_schedule_to_schedule(schedule, at):
    one, other = schedule("@hourly", jitter=600.0), schedule("@hourly", "other", jitter=600.0)

    delays = {each.due_at(at(1, 1, hour)) - at(1, 1, hour) for each in (one, other) for hour in range(24)}

    assert len(delays) == 48
    assert all(0 <= delay < 600 * SECOND for delay in delays)


def test_jitter_never_reaches_the_next_tick(schedule, at):
    found = schedule("* * * * *", jitter=86_400.0)

    due = [found.due_at(at(1, 1, 0, minute)) for minute in range(60)]

    assert all(at(1, 1, 0, minute) <= each < at(1, 1, 0, minute) + 60 * SECOND for minute, each in enumerate(due))


def test_the_job_of_a_tick_has_an_id_of_its_own_that_everybody_agrees_on(schedule, at):
    jobs = [schedule("@hourly").occurrence(at(1, 1, hour)) for hour in (1, 1, 2)]

    assert jobs[0].id == jobs[1].id != jobs[2].id
    assert jobs[0].id != schedule("@hourly", "other").occurrence(at(1, 1, 1)).id


def test_the_id_of_a_tick_is_a_uuid_that_sorts_by_time(schedule, at):
    ids = [schedule("@hourly").occurrence(at(month, 1, 1)).id for month in range(1, 13)]

    assert ids == sorted(ids)
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", id) for id in ids)


def test_the_job_of_a_tick_names_it(schedule, at):
    job = schedule("@hourly", job={"meta": {"tenant": "a"}}).occurrence(at(1, 1, 1))

    assert job.name == "report"
    assert job.idempotency_key == "cron:report@2026-01-01T01:00Z"
    assert job.meta == {"schedule": "report", "tick": "2026-01-01T01:00Z", "tenant": "a"}


def test_a_job_keeps_the_idempotency_key_it_was_given(schedule, at):
    assert schedule(job={"idempotency_key": "once"}).occurrence(at(1, 1)).idempotency_key == "once"


@pytest.mark.parametrize("microsecond", [0, 1, 999_999])
def test_moments_are_exact_to_the_microsecond(schedule, at, microsecond):
    found = schedule("* * * * *")

    assert found.after(at(1, 1, 0, 0, 59, microsecond)) == at(1, 1, 0, 1)
    assert found.before(at(1, 1, 0, 1) + 1) == at(1, 1, 0, 1)
    assert found.before(at(1, 1, 0, 1)) == at(1, 1)
