"""`tenure cron` lists schedules and shows their next runs."""

import pytest

SCHEDULES = """
app.schedule("note").daily_at("02:30").depends_on("hold").queue("reports").misfire("latest")
app.schedule("hold").daily_at("02:30")
app.schedule("sleep").every_five_minutes().environments("staging")
app.schedule("sleep").named("nightly").weekdays("4:08 pm", timezone="America/New_York").inline()
app.schedule("add", {"a": 1}).hourly().disable()
"""


def append(tenure, code):
    with (tenure.folder / "shop.py").open("a") as shop:
        shop.write(code)


@pytest.fixture
def shop(tenure):
    append(tenure, SCHEDULES)
    tenure.environment["TENURE_TIMEZONE"] = "Europe/Madrid"
    return tenure


def test_list_shows_what_is_due_next_first_and_what_never_is_last(shop):
    found = shop.json("cron", "list")

    assert {each["name"] for each in found} == {"note", "hold", "sleep", "nightly", "add"}
    assert [each["name"] for each in found[-2:]] == ["add", "sleep"]
    assert [each["next"] for each in found[:3]] == sorted(each["next"] for each in found[:3])
    assert {each["name"]: each["note"] for each in found if each["note"]} == {
        "add": "disabled",
        "sleep": "only in staging; this is production",
    }


def test_list_tells_times_by_the_clock_of_each_zone(shop):
    header, *rows = (line.split("\t") for line in shop("cron", "list").stdout.splitlines())
    found = {row[0]: dict(zip(header, row, strict=True)) for row in rows}

    assert found["nightly"]["next"][11:16] == "16:08"
    assert found["hold"]["next"][11:16] == "02:30"
    assert found["nightly"]["queue"] == "-"


def test_listing_creates_no_database(shop):
    shop("cron", "list")

    assert not (shop.folder / "jobs.db").exists()


def test_preview_shows_the_next_ticks(shop):
    done = shop("cron", "preview", "hold", "--count", "2", "--at", "2026-01-01T12:00")

    assert done.stdout.splitlines() == [
        "Europe/Madrid\tUTC\tnote",
        "2026-01-02 02:30+01:00\t2026-01-02 01:30\t-",
        "2026-01-03 02:30+01:00\t2026-01-03 01:30\t-",
    ]


def test_preview_around_dst_shows_what_the_clock_does(shop):
    found = shop.json("cron", "preview", "hold", "--around-dst", "--count", "1", "--at", "2026-03-01")

    assert [(each["kind"], each["local"], each["note"]) for each in found] == [
        ("tick", "2026-03-28T02:30:00+01:00", None),
        ("change", "2026-03-29T03:00:00+02:00", "the clock goes forward from 02:00 to 03:00"),
        ("tick", "2026-03-29T03:00:00+02:00", "instead of 02:30, which is missing that day"),
    ]


def test_preview_around_dst_of_a_clock_that_never_changes(shop):
    done = shop("cron", "preview", "hold", "--around-dst", TENURE_TIMEZONE="UTC")

    assert done.stdout == "the clock of UTC does not change within two years\n"


def test_explain_tells_what_a_schedule_does(shop):
    printed = shop("cron", "explain", "note").stdout

    assert "At 02:30 every day" in printed
    assert "runs the last one, however late" in printed
    assert "'hold': runs after they succeeded in the same tick" in printed


def test_explain_in_json_has_plain_names(shop):
    found = shop.json("cron", "explain", "hold", "--at", "2026-01-01")

    assert found["missing_times"] == "runs right after the clock has jumped"
    assert found["needed_by"] == ["note"]
    assert found["next"] == ["2026-01-01T01:30:00Z", "2026-01-02T01:30:00Z", "2026-01-03T01:30:00Z"]


def test_a_dry_run_tells_what_would_run_in_the_order_of_dependencies(shop):
    found = shop.json("cron", "run", "--dry-run", "--at", "2026-11-20T02:30")

    assert [(each["name"], each["would"], each["queue"], each["why"]) for each in found] == [
        ("hold", "enqueue", "default", None),
        ("note", "enqueue", "reports", None),
        ("sleep", "skip", None, "only in staging; this is production"),
    ]
    assert {each["tick"] for each in found} == {"2026-11-20T01:30:00Z"}


def test_a_dry_run_does_nothing(shop):
    shop("cron", "run", "--dry-run", "--at", "2026-11-20T02:30")

    assert not (shop.folder / "jobs.db").exists()


def test_a_dry_run_of_some_asks_not_when_they_are_due(shop):
    found = shop.json("cron", "run", "--dry-run", "--only", "nightly", "--only", "add")

    assert [(each["name"], each["would"]) for each in found] == [("nightly", "run"), ("add", "skip")]


def test_a_minute_in_which_nothing_is_due(shop):
    assert shop("cron", "run", "--dry-run", "--at", "2026-11-20T02:31").stdout == "nothing is due\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("preview", "hodl"), "no schedule is called 'hodl'; there are: add, hold, nightly, note, sleep"),
        (("preview", "hold", "--at", "later"), "--at 'later' is not a time; write a datetime"),
        (("run", "--dry-run", "--only", "hodl"), "no schedule is called 'hodl'"),
        (("run", "--only", "hodl"), "no schedule is called 'hodl'"),
        (("pause", "hodl"), "no schedule is called 'hodl'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(shop, arguments, message):
    done = shop("cron", *arguments)

    assert done.returncode == 2
    assert message in done.stderr


def test_a_circle_of_dependencies_is_refused(shop):
    append(shop, 'app.schedule("fail").hourly().depends_on("die")\napp.schedule("die").hourly().depends_on("fail")\n')

    done = shop("cron", "list")

    assert done.returncode == 2
    assert "schedules depend on each other in a circle: fail → die → fail" in done.stderr


def test_an_app_without_schedules_says_so(tenure):
    assert tenure("cron", "list").stdout == "no schedules are registered\n"
