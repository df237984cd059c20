"""`at` and `expires_at` in all their forms, from the option to the stored job."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tenure import Tenure
from tenure.testing import FakeClock, run_due

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)  # a Tuesday


@pytest.fixture
def clock():
    return FakeClock(NOON)


@pytest.fixture
def app(clock):
    with Tenure("memory://", clock=clock, timezone="Europe/Madrid") as app:
        yield app


@pytest.fixture
def remind(app):
    @app.job
    def remind(user: int) -> None: ...

    return remind


def due(app, id):
    return datetime.fromtimestamp(app.backend.jobs.find(id).due_at / 1_000_000, UTC)


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (datetime(2030, 2, 1, 9, tzinfo=ZoneInfo("Europe/Madrid")), datetime(2030, 2, 1, 8, tzinfo=UTC)),
        ("2030-02-01T09:00:00+02:00", datetime(2030, 2, 1, 7, tzinfo=UTC)),
        ("2030-02-01 09:00", datetime(2030, 2, 1, 8, tzinfo=UTC)),
        (1_900_000_000, datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC)),
        ("tomorrow 09:00", datetime(2030, 1, 2, 8, tzinfo=UTC)),
        ("next monday 8am UTC", datetime(2030, 1, 7, 8, tzinfo=UTC)),
        ("in 10 minutes", datetime(2030, 1, 1, 12, 10, tzinfo=UTC)),
    ],
)
def test_a_job_starts_at_the_time_that_at_names(app, remind, at, wanted):
    one = remind.using(at=at).enqueue(1)
    built = app.define("remind", {"user": 2}).scheduled_at(at).dispatch()
    many = app.enqueue_many(remind.using(at=at).build(user) for user in (3, 4))

    assert [due(app, id) for id in (one, built, *many)] == [wanted] * 4


def test_a_phrase_counts_from_the_enqueue_and_not_from_using(app, remind, clock):
    later = remind.using(at="in 10 minutes")
    clock.advance(3600)

    assert due(app, later.enqueue(1)) == datetime(2030, 1, 1, 13, 10, tzinfo=UTC)


def test_a_phrase_of_a_follow_up_job_counts_from_the_enqueue_of_the_first_job(app, remind):
    remind.using(then=remind.using(at="tomorrow").build(2)).enqueue(1)
    run_due(app)

    (follower,) = app.backend.jobs.waiting()

    assert due(app, follower.id) == datetime(2030, 1, 1, 23, tzinfo=UTC)


def test_a_job_expires_at_the_time_that_a_phrase_names(app, remind, clock):
    id = remind.using(expires_at="13:30").enqueue(1)  # 12:30 in UTC
    clock.advance(1799)
    kept = remind.using(expires_at="in 1 minute").enqueue(2)
    clock.advance(2)
    run_due(app)

    assert [app.backend.jobs.find(each).state for each in (id, kept)] == ["expired", "done"]


def test_reschedule_takes_the_same_forms(app, remind):
    id = remind.enqueue(1)

    app.reschedule(id, at="tomorrow 09:00")

    assert due(app, id) == datetime(2030, 1, 2, 8, tzinfo=UTC)


@pytest.mark.parametrize("at", [datetime(2030, 1, 1, 9, 30, tzinfo=UTC), "2030-01-01T10:30", 1893490200000000])
def test_the_ticks_of_a_given_time_can_be_run(app, remind, at):
    app.schedule(remind.build(user=1)).cron("30 10 * * *")

    (ran,) = app.cron.run(at=at)

    assert ran.record.tick == 1893490200000000
