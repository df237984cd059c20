"""Registering schedules: the builder's methods, the names, and the hook in the settings."""

import sys
from datetime import UTC, datetime
from types import ModuleType

import pytest

from tenure import Job, Tenure
from tenure.cron.schedule import Daylight, Misfire
from tenure.errors import InvalidJob, InvalidSchedule, SettingsError, UnknownHandler

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def app():
    app = Tenure("memory://")

    @app.job
    def send(user_id: int) -> None: ...

    @app.job
    def clean() -> None: ...

    app.send = send
    return app


@pytest.mark.parametrize(
    ("word", "arguments", "field", "value"),
    [
        ("daylight", {"missing": "skip"}, "daylight", Daylight("skip", "auto")),
        ("jitter", {"limit": "5m"}, "jitter", 300.0),
        ("misfire", {"policy": "latest"}, "misfire", Misfire("latest")),
        ("misfire", {"policy": "all", "limit": 5, "age": "1h"}, "misfire", Misfire("all", 60.0, 5, 3600.0)),
        ("misfire", {"policy": "skip", "grace": "2m"}, "misfire", Misfire("skip", 120.0)),
        ("overlap", {"policy": "queue_one"}, "overlap", "queue_one"),
        ("starts_at", {"moment": START}, "starts_at", START),
        ("ends_at", {"moment": END}, "ends_at", END),
        ("inline", {}, "inline", True),
        ("timezone", {"name": "Asia/Tokyo"}, "timezone", "Asia/Tokyo"),
        ("named", {"name": "nightly"}, "name", "nightly"),
    ],
)
def test_each_word_sets_its_field_and_can_be_chained(builder, word, arguments, field, value):
    assert getattr(builder, word)(**arguments) is builder
    assert getattr(builder.freeze("UTC"), field) == value


@pytest.mark.parametrize(
    ("word", "arguments", "message"),
    [
        ("daylight", {"missing": "never"}, "missing must be one of"),
        ("jitter", {"limit": "soon"}, "jitter 'soon' is not a duration"),
        ("misfire", {"policy": "some"}, "misfire must be one of"),
        ("overlap", {"policy": "maybe"}, "overlap must be one of allow, skip, queue_one, got 'maybe'"),
        ("starts_at", {"moment": datetime(2026, 1, 1)}, "starts_at has no time zone"),
        ("ends_at", {"moment": "tomorrow"}, "ends_at must be a datetime"),
    ],
)
def test_a_wrong_word_is_refused_where_it_is_written(builder, word, arguments, message):
    with pytest.raises(InvalidJob, match=message):
        getattr(builder, word)(**arguments)


def test_an_end_before_the_start_is_refused(builder):
    with pytest.raises(InvalidSchedule, match=r"'report' ends at .* before it starts"):
        builder.starts_at(END).ends_at(START).freeze("UTC")


@pytest.mark.parametrize("fields", [{"timezone": "Madrid"}, {"cron": "0 25 * * *"}])
def test_a_job_made_by_hand_is_checked_too(app, fields):
    with pytest.raises(InvalidSchedule):
        app.schedule(Job(handler="clean", payload={}, **fields)).freeze("UTC")


@pytest.mark.parametrize("name", ["x" * 201, "a\nb"])
def test_a_name_that_cannot_be_shown_is_refused(builder, name):
    with pytest.raises(InvalidSchedule, match="cannot name a schedule"):
        builder.named(name).freeze("UTC")


def test_a_schedule_is_registered_where_it_is_written_and_takes_every_word_after(app):
    app.schedule(app.send.build(user_id=1)).daily_at("02:00", timezone="Europe/Madrid").queue("emails")

    (schedule,) = app.schedules.all()

    assert (schedule.name, schedule.expression, schedule.timezone) == ("send", "0 2 * * *", "Europe/Madrid")
    assert (schedule.job.queue, schedule.job.payload) == ("emails", {"user_id": 1})


def test_a_schedule_may_be_described_by_the_key_of_its_handler(app):
    app.schedule("send", {"user_id": 1}).hourly()

    assert app.schedules.get("send").job.payload == {"user_id": 1}


def test_an_unknown_handler_cannot_be_scheduled(app):
    with pytest.raises(UnknownHandler):
        app.schedule("sned")


def test_the_expression_of_a_job_is_kept(app):
    app.schedule(app.define("clean").weekly("03:00").build())

    assert app.schedules.get("clean").expression == "0 3 * * 0"


def test_a_schedule_follows_the_clock_of_the_app_unless_it_names_its_own():
    app = Tenure("memory://", timezone="Asia/Tokyo")
    app.job(name="a")(lambda: None)
    app.schedule("a").daily()
    app.schedule("a").named("b").daily(timezone="Europe/Madrid")

    assert [schedule.timezone for schedule in app.schedules.all()] == ["Asia/Tokyo", "Europe/Madrid"]


def test_a_name_is_taken_once(app):
    app.schedule("clean").hourly()
    app.schedule("clean").daily()

    with pytest.raises(InvalidSchedule, match=r"two schedules are called 'clean'; .* named\("):
        app.schedules.all()


def test_schedules_are_read_in_the_order_of_their_dependencies(app):
    app.schedule("send", {"user_id": 1}).depends_on("clean").hourly()
    app.schedule("clean").hourly()

    assert [schedule.name for schedule in app.schedules.all()] == ["clean", "send"]


def test_a_schedule_that_does_not_say_when_it_is_due_is_refused_with_what_to_write(app):
    app.schedule("clean").queue("slow").depends_on("send")

    with pytest.raises(InvalidSchedule, match=r"schedule 'clean' does not say when .* \.daily_at\(\"02:00\"\)"):
        app.schedules.all()


@pytest.mark.parametrize(
    "write",
    [
        lambda schedule: schedule.daily_at("25:00"),
        lambda schedule: schedule.hourly(61),
        lambda schedule: schedule.cron("0 0 31 2 *"),
        lambda schedule: schedule.queue("").hourly(),
        lambda schedule: schedule.hourly().queue(""),
        lambda schedule: schedule.every_minute().jitter("soon"),
        lambda schedule: schedule.daily_at("02:00").timezone("Madrid"),
    ],
)
def test_a_schedule_of_which_a_word_was_refused_is_not_registered(app, write, caplog):
    app.schedule("send", {"user_id": 1}).hourly()

    with pytest.raises(InvalidJob):
        write(app.schedule("clean"))

    assert [schedule.name for schedule in app.schedules.all()] == ["send"]
    assert [schedule.name for schedule in app.schedules.all()] == ["send"]
    (warning,) = caplog.messages
    assert warning.startswith("schedule 'clean' is not registered: ")


def test_a_word_that_is_accepted_after_a_refusal_registers_the_schedule(app):
    schedule = app.schedule("clean")
    with pytest.raises(InvalidJob):
        schedule.daily_at("25:00")
    schedule.daily_at("03:00")

    assert [schedule.expression for schedule in app.schedules.all()] == ["0 3 * * *"]


def test_an_unknown_schedule_is_answered_with_those_that_exist(app):
    app.schedule("clean").hourly()

    with pytest.raises(InvalidSchedule, match="no schedule is called 'claen'; there are: clean"):
        app.schedules.get("claen")


def test_registering_runs_and_opens_nothing(app):
    app.schedule("clean").every_minute()
    app.schedules.all()

    assert app._backends.place.opened == {}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(handler="sned"), "schedule 'sned' could never run: no handler is registered under 'sned'"),
        (Job(handler="send", payload={"user": 1}), "schedule 'send' could never run: .*user"),
        (Job(handler="clean", payload={}, queue="emails"), "could never run: queue 'emails' does not allow"),
    ],
)
def test_a_job_that_could_never_be_enqueued_is_refused_when_schedules_are_read(job, message):
    app = Tenure("memory://", allow={"emails": ["send"]})

    @app.job
    def send(user_id: int) -> None: ...

    @app.job
    def clean() -> None: ...

    app.schedule(job).hourly()

    with pytest.raises(InvalidSchedule, match=message):
        app.schedules.all()


@pytest.fixture
def hook(monkeypatch):
    module = ModuleType("shop_schedules")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def hooked(place="shop_schedules:register"):
    app = Tenure("memory://", schedules=place)
    app.job(name="clean")(lambda: None)
    return app


def test_the_settings_name_a_function_that_registers_schedules(hook):
    hook.register = lambda app: app.schedule("clean").hourly()
    app = hooked()

    assert [schedule.name for schedule in app.schedules.all()] == ["clean"]
    assert len(app.schedules.all()) == 1


def test_a_hook_that_fails_is_called_again_and_leaves_nothing_behind(hook):
    calls = []

    def register(app):
        app.schedule("clean").hourly()
        calls.append(app)
        if len(calls) == 1:
            raise RuntimeError("not yet")

    hook.register = register
    app = hooked()
    with pytest.raises(RuntimeError):
        app.schedules.all()

    assert len(app.schedules.all()) == 1
    assert len(calls) == 2


@pytest.mark.parametrize("place", ["shop_schedules:other", "no_such_module:register", "not a place"])
def test_a_hook_that_cannot_be_found_is_named(hook, place):
    with pytest.raises(SettingsError, match=f"the setting schedules names {place!r}, which cannot be found"):
        hooked(place).schedules.all()


def test_an_unknown_zone_in_the_settings_is_refused_when_the_app_is_made():
    with pytest.raises(SettingsError, match="timezone must be a name such as 'Europe/Madrid' or 'UTC', not 'Madrid'"):
        Tenure("memory://", timezone="Madrid")
