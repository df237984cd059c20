"""A Job: its fields, what it refuses, and how a changed copy is made."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tenure import Backoff, Job
from tenure.errors import InvalidJob

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


def test_a_job_is_immutable():
    job = Job(handler="report")

    with pytest.raises(AttributeError):
        job.priority = 9  # type: ignore[misc]


def test_a_job_has_documented_defaults():
    job = Job(handler="report")

    assert job == Job(
        handler="report",
        payload=None,
        queue="default",
        name=None,
        priority=5,
        max_retries=0,
        timeout=None,
        delay=0.0,
        at=None,
        expires_at=None,
        single_instance=False,
        idempotency_key=None,
        backoff=None,
        max_crashes=3,
        meta={},
        id=None,
        cron=None,
        enabled=True,
        environments=(),
        depends_on=(),
    )


def test_two_jobs_do_not_share_their_meta():
    one, other = Job(handler="report"), Job(handler="report")

    one.meta["tenant"] = "a"

    assert other.meta == {}


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("handler", "other", "other"),
        ("payload", {"a": 1}, {"a": 1}),
        ("queue", "emails", "emails"),
        ("name", "monthly", "monthly"),
        ("priority", 9, 9),
        ("priority", 0, 0),
        ("priority", "low", 2),
        ("priority", "normal", 5),
        ("priority", "medium", 5),
        ("priority", "high", 8),
        ("priority", "HIGH", 8),
        ("max_retries", 3, 3),
        ("timeout", 30, 30.0),
        ("timeout", 0.5, 0.5),
        ("timeout", timedelta(minutes=2), 120.0),
        ("timeout", "1h 30m", 5400.0),
        ("timeout", None, None),
        ("delay", 10, 10.0),
        ("delay", timedelta(seconds=90), 90.0),
        ("delay", "10m", 600.0),
        ("delay", "1h 30m", 5400.0),
        ("at", NOON, NOON),
        ("at", datetime(2030, 6, 1, 14, 0, tzinfo=ZoneInfo("Europe/Madrid")), NOON),
        ("at", datetime(2030, 6, 1, 7, 0, tzinfo=timezone(timedelta(hours=-5))), NOON),
        ("expires_at", NOON, NOON),
        ("single_instance", True, True),
        ("idempotency_key", "order-7", "order-7"),
        ("backoff", "fixed", Backoff(strategy="fixed")),
        ("backoff", Backoff(base=1.0), Backoff(base=1.0)),
        ("max_crashes", 0, 0),
        ("meta", {"tenant": "a"}, {"tenant": "a"}),
        ("id", "my-own-id", "my-own-id"),
        ("cron", "0 3 * * *", "0 3 * * *"),
        ("enabled", False, False),
        ("environments", ["staging", "production"], ("staging", "production")),
        ("environments", "staging", ("staging",)),
        ("depends_on", ["export"], ("export",)),
        ("depends_on", "export", ("export",)),
    ],
)
def test_replace_gives_a_copy_with_the_field_changed(field, given, kept):
    job = Job(handler="report")

    changed = job.replace(**{field: given})

    assert getattr(changed, field) == kept
    assert job == Job(handler="report")


def test_replace_keeps_every_other_field():
    job = Job(handler="report", payload=1, queue="slow", name="n", priority=7, max_retries=2, meta={"a": 1})

    changed = job.replace(timeout=5)

    assert changed == Job(
        handler="report", payload=1, queue="slow", name="n", priority=7, max_retries=2, meta={"a": 1}, timeout=5.0
    )


def test_a_moment_is_kept_in_utc():
    job = Job(handler="report").replace(at=datetime(2030, 6, 1, 14, 0, tzinfo=ZoneInfo("Europe/Madrid")))

    assert job.at is not None
    assert job.at.tzinfo is UTC


def test_setting_a_delay_clears_the_moment():
    job = Job(handler="report", at=NOON).replace(delay="10m")

    assert (job.delay, job.at) == (600.0, None)


def test_setting_a_moment_clears_the_delay():
    job = Job(handler="report", delay=5.0).replace(at=NOON)

    assert (job.delay, job.at) == (0.0, NOON)


def test_a_job_takes_either_a_delay_or_a_moment():
    with pytest.raises(InvalidJob, match="either delay or at, not both"):
        Job(handler="report").replace(delay=5, at=NOON)


@pytest.mark.parametrize("priority", [-1, 10, 5.0, "7", None, True])
def test_a_priority_outside_0_to_9_is_refused_with_the_range(priority):
    with pytest.raises(InvalidJob, match=r"from 0 to 9 \(higher runs sooner\)|use 0 … 9 or one of"):
        Job(handler="report").replace(priority=priority)


def test_an_unknown_priority_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidJob, match="priority 'urgent' is unknown; use 0 … 9 or one of low, normal, medium, high"):
        Job(handler="report").replace(priority="urgent")


@pytest.mark.parametrize("count", [-1, 1.5, "3", None, True, 2**31])
@pytest.mark.parametrize(("field", "most"), [("max_retries", 2**31 - 1), ("max_crashes", 100)])
def test_a_budget_must_be_a_whole_number_within_its_bounds(field, most, count):
    with pytest.raises(InvalidJob, match=f"{field} must be a whole number from 0 to {most}, got {count!r}"):
        Job(handler="report").replace(**{field: count})
    assert getattr(Job(handler="report").replace(**{field: most}), field) == most


def test_a_number_that_python_cannot_write_is_refused_like_any_other():
    for field in ("max_retries", "timeout", "delay", "at_most", "idempotency_ttl"):
        with pytest.raises(InvalidJob, match=f"{field} must .* got a number of more than 4300 digits"):
            Job(handler="report").replace(**{field: 10**5000})


def test_a_timeout_of_0_is_refused_and_none_means_no_limit():
    with pytest.raises(InvalidJob, match="more than 0 seconds and at most 100 years, or None, got 0"):
        Job(handler="report").replace(timeout=0)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "10m", True])
def test_a_job_is_never_made_with_a_timeout_that_is_no_length_of_time(timeout):
    with pytest.raises(InvalidJob, match="timeout must be more than 0 seconds"):
        Job(handler="report", timeout=timeout)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "10m", timedelta(minutes=10), None, True])
def test_a_job_is_never_made_with_a_delay_that_is_not_seconds(delay):
    with pytest.raises(InvalidJob, match="delay must be seconds from 0 to 100 years, got "):
        Job(handler="report", delay=delay)


@pytest.mark.parametrize("delay", [-1, timedelta(seconds=-1), float("nan"), float("inf"), "6000w", 1e12])
def test_a_delay_is_refused_outside_0_to_100_years(delay):
    with pytest.raises(InvalidJob, match="delay must lie between 0 and 100 years"):
        Job(handler="report").replace(delay=delay)


@pytest.mark.parametrize("delay", [True, [5], {"minutes": 5}])
def test_a_delay_of_another_type_is_refused_with_what_to_write(delay):
    with pytest.raises(InvalidJob, match='delay must be seconds, a timedelta or text such as "10m"'):
        Job(handler="report").replace(delay=delay)


@pytest.mark.parametrize("text", ["", "soon", "10", "10 minuets", "m", "-5m", "5m!", "1h, 30m"])
def test_text_that_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(InvalidJob, match='is not a duration; write it as "30s", "10m", "1h 30m", "10 minutes" or "2d"'):
        Job(handler="report").replace(delay=text)


@pytest.mark.parametrize("field", ["at", "expires_at"])
def test_a_naive_datetime_is_refused_because_it_names_no_instant(field):
    with pytest.raises(InvalidJob, match=rf"{field} has no time zone: .*; write datetime\(\.\.\., tzinfo=UTC\)"):
        Job(handler="report").replace(**{field: datetime(2030, 1, 1)})


@pytest.mark.parametrize("field", ["at", "expires_at"])
def test_a_job_is_never_made_with_a_naive_datetime(field):
    with pytest.raises(InvalidJob, match=f"{field} has no time zone"):
        Job(handler="report", **{field: datetime(2030, 1, 1)})


@pytest.mark.parametrize("field", ["at", "expires_at"])
def test_a_moment_has_one_of_the_known_forms(field):
    with pytest.raises(InvalidJob, match=f"{field} must be a datetime with a time zone, epoch seconds, ISO text"):
        Job(handler="report").replace(**{field: b"2030-01-01"})


@pytest.mark.parametrize("queue", ["a", "emails", "e-mails.v2_x", "0", "A" * 100])
def test_a_queue_is_named_with_letters_digits_dots_underscores_and_hyphens(queue):
    assert Job(handler="report", queue=queue).queue == queue


@pytest.mark.parametrize(
    "queue", ["", " ", "a b", "-a", ".a", "_a", "a/b", "a:b", "a\n", "é", "A" * 101, None, 7, ["emails"]]
)
def test_a_queue_name_outside_the_grammar_is_refused_with_the_grammar(queue):
    with pytest.raises(InvalidJob, match="cannot name a queue; use 1 to 100 letters, digits"):
        Job(handler="report", queue=queue)


@pytest.mark.parametrize("key", ["a", "reports.monthly", "a:b/c-d_e", "_private", "a" * 200])
def test_a_handler_key_is_made_of_letters_digits_and_a_few_signs(key):
    assert Job(handler=key).handler == key


@pytest.mark.parametrize("key", ["", " ", "a b", ".a", "/a", "a\n", "é", "<lambda>", "a" * 201, None, 7, ["report"]])
def test_a_handler_key_outside_the_grammar_is_refused_with_the_grammar(key):
    with pytest.raises(InvalidJob, match="cannot name a handler; use 1 to 200 letters, digits"):
        Job(handler=key)


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("name", 7, "text or None"),
        ("idempotency_key", 7, "text or None"),
        ("id", 7, "text or None"),
        ("single_instance", 1, "True or False"),
        ("backoff", 5, "a Backoff or None"),
        ("meta", ["a"], "a dict"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_before_it_could_travel(field, value, advice):
    with pytest.raises(InvalidJob, match=f"{field} must be {advice}, got"):
        Job(handler="report").replace(**{field: value})


def test_an_unknown_option_is_named_with_the_known_ones():
    with pytest.raises(InvalidJob, match="unknown job option 'prio'; known ones: queue, name, priority"):
        Job(handler="report").replace(prio=3)  # type: ignore[call-arg]


def test_an_unknown_backoff_strategy_is_refused_with_the_known_ones():
    with pytest.raises(InvalidJob, match="must be 'none', 'fixed' or 'exponential', got 'linear'"):
        Job(handler="report").replace(backoff="linear")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        ("billing", ("billing",)),
        (["b", "a", "b", "a"], ("b", "a")),
        (("x" * 64, "50% off", "Ω"), ("x" * 64, "50% off", "Ω")),
        ([str(number) for number in range(16)], tuple(str(number) for number in range(16))),
        ([], ()),
    ],
)
def test_tags_are_words_in_the_given_order_without_duplicates(given, tags):
    assert Job(handler="report").replace(tags=given).tags == tags


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a,b"], "'a,b' cannot be a tag; use 1 to 64 characters without commas and control characters"),
        ([""], "'' cannot be a tag"),
        (["x" * 65], "cannot be a tag"),
        (["two\nlines"], "cannot be a tag"),
        (["\0"], "cannot be a tag"),
        (["\ud800"], "cannot be a tag"),
        ([7], "7 cannot be a tag"),
        ([["a"]], r"\['a'\] cannot be a tag"),
        ([str(number) for number in range(17)], "a job has at most 16 tags, got 17"),
        (None, "tags must be a tuple of texts, got None"),
    ],
)
def test_tags_that_not_every_backend_can_index_are_refused(given, message):
    with pytest.raises(InvalidJob, match=message):
        Job(handler="report").replace(tags=given)


def test_a_job_takes_its_tags_as_a_tuple_without_duplicates():
    with pytest.raises(InvalidJob, match="tags must be a tuple of texts, got 'billing'"):
        Job(handler="report", tags="billing")  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="tags must differ from each other"):
        Job(handler="report", tags=("a", "a"))


@pytest.mark.parametrize("field", ["name", "idempotency_key", "id", "key", "breaker", "unique", "rate"])
@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_a_character_that_not_every_backend_can_store_is_refused_with_its_place(field, character):
    with pytest.raises(InvalidJob, match=f"{field} has the character .* at position 2, which not every backend"):
        Job(handler="report", **{field: f"ab{character}"})


@pytest.mark.parametrize("field", ["at", "expires_at"])
def test_a_moment_that_utc_has_no_name_for_is_refused(field):
    late = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
    with pytest.raises(InvalidJob, match=f"{field} is outside the years 1 to 9999 in UTC"):
        Job(handler="report", **{field: late})


@pytest.mark.parametrize("field", ["name", "idempotency_key", "id"])
def test_texts_that_are_indexed_have_a_greatest_length(field):
    assert getattr(Job(handler="report", **{field: "x" * 255}), field) == "x" * 255
    with pytest.raises(InvalidJob, match=f"{field} has 256 characters, more than 255"):
        Job(handler="report", **{field: "x" * 256})
