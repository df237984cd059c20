"""The exact bytes of a message: other programs and later releases read them."""

from datetime import UTC, datetime

import pytest

from tenure import Backoff, Job
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring

NOW = 1_893_456_000_123_456


@pytest.fixture
def wire():
    return Wire(Ring([Key("k1", bytes(range(32)))]))


def test_a_plain_job_is_sealed_into_exactly_these_bytes(wire):
    job = Job(handler="report", queue="slow")

    sealed = wire.seal(job, b'{"month":6}', "0197a2c0-0000-7000-8000-000000000001", NOW)

    assert sealed == (
        b'{"v":1,"kid":"k1","job":"report","payload":{"month":6},"queue":"slow","priority":5,"maxRetries":0,'
        b'"attempts":0,"name":null,"identifier":"0197a2c0-0000-7000-8000-000000000001","idempotencyKey":null,'
        b'"schedule":null,"createdAt":"2030-01-01T00:00:00.123456Z",'
        b'"_sig":"3425bf90007e34518d753122990474097662091f7dbe5ee41c64200efd0fc651"}'
    )


def test_a_job_with_every_option_is_sealed_into_exactly_these_bytes(wire):
    job = Job(
        handler="report",
        queue="slow",
        name="monthly",
        priority=8,
        max_retries=3,
        timeout=30.0,
        at=datetime(2030, 6, 1, 12, tzinfo=UTC),
        expires_at=datetime(2030, 7, 1, tzinfo=UTC),
        single_instance=True,
        idempotency_key="2030-06",
        backoff=Backoff("fixed", base=1.0),
        max_crashes=1,
        meta={"tenant": "a"},
    )

    sealed = wire.seal(job, b"[1,2]", "id-1", NOW)

    assert sealed == (
        b'{"v":1,"kid":"k1","job":"report","payload":[1,2],"queue":"slow","priority":8,"maxRetries":3,'
        b'"attempts":0,"name":"monthly","identifier":"id-1","idempotencyKey":"2030-06",'
        b'"schedule":"2030-06-01T12:00:00Z","timeout":30.0,"singleInstance":true,"maxCrashes":1,'
        b'"backoff":{"strategy":"fixed","base":1.0},"meta":{"tenant":"a"},'
        b'"createdAt":"2030-01-01T00:00:00.123456Z","expiresAt":"2030-07-01T00:00:00Z",'
        b'"_sig":"d302ce66571e387bc41bfaa234054882f64c03fbcf7567eb92916e8c4e8dc12b"}'
    )


def test_a_delay_travels_as_the_moment_it_leads_to(wire):
    sealed = wire.seal(Job(handler="report", delay=60.0), b"null", "id-1", NOW)

    assert b'"schedule":"2030-01-01T00:01:00.123456Z"' in sealed


def test_what_matters_to_schedules_only_does_not_travel(wire):
    plain = Job(handler="report")
    scheduled = plain.replace(cron="0 3 * * *", enabled=False, environments=("staging",), depends_on=("export",))

    assert wire.seal(scheduled, b"null", "id-1", NOW) == wire.seal(plain, b"null", "id-1", NOW)
