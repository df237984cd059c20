"""The app on a backend in memory: jobs are defined, registered, enqueued and found again."""

import sys
from datetime import UTC, datetime

import pytest

from tenure import Backoff, Context, Job, Lane, Tenure, register_backend
from tenure.backends import url
from tenure.backends.contract import Backend
from tenure.backends.memory import MemoryBackend
from tenure.errors import (
    BackendError,
    ForbiddenHandler,
    InvalidHandler,
    InvalidJob,
    InvalidPayload,
    JobFailed,
    PartialPut,
    SettingsError,
    UnknownBackend,
    UnknownHandler,
    UnknownKey,
)
from tenure.events import CancelRequested, Enqueued
from tenure.testing import FakeClock
from tenure.wire.signing import new_key
from tests.support.call_counter import calls_of


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clock():
    return FakeClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def app(clock):
    with Tenure("memory://", clock=clock) as app:
        yield app


@pytest.fixture
def send(app):
    @app.job(queue="emails", max_retries=3, timeout=30)
    def send(user_id: int, text: str = "hello") -> str:
        return f"{text} {user_id}"

    return send


@pytest.fixture
def schemes(monkeypatch):
    monkeypatch.setattr(url, "_registered", {})


class Shared(Backend):
    """A backend of a third party whose messages leave this process."""

    def __init__(self):
        self.put = MemoryBackend().put
        self.closed = False

    def close(self):
        self.closed = True


def test_a_decorated_function_is_still_called_like_a_function(send):
    assert send(7, text="bye") == "bye 7"


def test_a_decorated_function_keeps_its_name_and_docstring(app):
    @app.job
    def ping():
        """Say pong."""

    assert (ping.__name__, ping.__doc__, ping.key) == ("ping", "Say pong.", "ping")


def test_enqueue_puts_a_job_on_its_queue_and_gives_its_id(app, send):
    id = send.enqueue(user_id=7)

    record = app.backend.jobs.find(id)
    assert (record.queue, record.handler, record.state, record.priority) == ("emails", "send", "ready", 5)


def test_build_gives_the_job_that_enqueue_would_send(send):
    assert send.build(7) == Job(handler="send", payload={"user_id": 7}, queue="emails", max_retries=3, timeout=30.0)


def test_using_changes_options_for_one_call(app, send):
    id = send.using(delay="10m", priority="high", queue="later").enqueue(user_id=7)

    record = app.backend.jobs.find(id)
    assert (record.queue, record.state, record.priority) == ("later", "delayed", 8)
    assert record.due_at == app.clock.now() + 600_000_000


def test_using_leaves_the_function_as_it_was(send):
    send.using(priority=9)

    assert send.build(7).priority == 5


def test_using_can_be_refined(send):
    assert send.using(priority=9).using(name="welcome").build(7).replace(payload=None) == Job(
        handler="send", queue="emails", max_retries=3, timeout=30.0, priority=9, name="welcome"
    )


def test_a_moment_is_kept_to_the_microsecond(app, send):
    id = send.using(at=datetime(2030, 1, 1, 0, 0, 1, 500001, tzinfo=UTC)).enqueue(user_id=7)

    assert app.backend.jobs.find(id).due_at == app.clock.now() + 1_500_001


def test_an_async_function_is_enqueued_like_any_other(app):
    @app.job
    async def ping(ctx: Context, host: str) -> None: ...

    id = ping.enqueue(host="a.example")

    assert app.backend.jobs.find(id).handler == "ping"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "handler 'send' was given the wrong arguments: missing a required argument: 'user_id'"),
        ({"user_id": "seven"}, r"Expected `int`, got `str` - at `\$.user_id`"),
        ({"user_id": 7, "subject": "x"}, "unexpected keyword argument 'subject'"),
        ({"user_id": 7, "text": b"x"}, r"\$.text is b'x'; bytes need a handler"),
    ],
)
def test_a_wrong_call_is_refused_at_enqueue_and_nothing_is_stored(app, send, arguments, message):
    with pytest.raises(InvalidPayload, match=message):
        send.enqueue(**arguments)

    assert app.backend.queues.counts() == {}


def test_a_job_with_an_id_of_its_own_is_stored_once(app, send):
    ids = [app.enqueue(send.build(7).replace(id="welcome-7")) for _ in range(2)]

    assert ids == ["welcome-7", "welcome-7"]
    assert app.backend.queues.counts()["emails"]["ready"] == 1


def test_a_job_built_once_may_be_enqueued_twice(app, send):
    job = send.build(7)

    assert app.enqueue(job) != app.enqueue(job)


def test_a_key_may_be_chosen(app):
    @app.job(name="emails.send")
    def send(): ...

    assert send.build().handler == "emails.send"


def test_a_key_is_taken_once(app, send):
    with pytest.raises(InvalidHandler, match="already registered under 'send'"):
        app.job(send.__wrapped__)


def test_settings_give_functions_their_retries(clock):
    app = Tenure("memory://", max_retries=4)

    @app.job
    def ping(): ...

    assert ping.build().max_retries == 4


def test_a_retry_policy_may_be_given_to_the_app():
    assert Tenure("memory://", retry=Backoff("none")).retry == Backoff("none")


def test_settings_give_the_backoff():
    assert Tenure("memory://", backoff={"strategy": "fixed", "base": "2"}).retry == Backoff("fixed", base=2.0)


def test_a_wrong_backoff_is_named():
    with pytest.raises(SettingsError, match=r"the setting backoff is wrong: .*multiplier"):
        Tenure("memory://", backoff={"multiplier": 0})


def test_define_describes_a_job_by_its_key(app, send):
    id = app.define("send", {"user_id": 7}).named("welcome").queue("slow").priority("low").dispatch()

    record = app.backend.jobs.find(id)
    assert (record.name, record.queue, record.priority) == ("welcome", "slow", 2)


def test_define_begins_with_the_options_of_the_handler(app, send):
    job = app.define("send", {"user_id": 7}).build()

    assert (job.queue, job.max_retries, job.timeout) == ("emails", 3, 30.0)


def test_define_of_an_unknown_handler_lists_the_known_ones(app, send):
    with pytest.raises(UnknownHandler, match=r"under 'sned' \(registered: send\)"):
        app.define("sned")


def test_a_registered_class_takes_any_payload(app):
    class Report:
        queue = "reports"

        def handle(self, payload): ...

    app.register("report", Report)
    id = app.define("report", ["2030", 6]).dispatch()

    assert app.backend.jobs.find(id).queue == "reports"


def test_a_class_may_say_how_often_it_is_retried():
    class Report:
        max_retries = 4

        def handle(self): ...

    app = Tenure("memory://", max_retries=1)
    app.register("report", Report)

    assert app.define("report").build().max_retries == 4


def test_the_registration_goes_before_what_a_class_says(app):
    class Report:
        max_retries = 4

        def handle(self): ...

    app.register("report", Report, max_retries=2)

    assert app.define("report").build().max_retries == 2


def test_settings_give_classes_their_retries():
    class Report:
        def handle(self): ...

    app = Tenure("memory://", max_retries=3)
    app.register("report", Report)

    assert app.define("report").build().max_retries == 3


def test_an_unknown_handler_cannot_be_enqueued(app):
    with pytest.raises(UnknownHandler):
        app.enqueue(Job(handler="nobody"))


def test_an_allowlist_is_checked_at_enqueue():
    app = Tenure("memory://", allow={"emails": []})

    @app.job(queue="emails")
    def send(): ...

    with pytest.raises(ForbiddenHandler):
        send.enqueue()


def test_enqueue_many_gives_the_ids_in_order(app, send):
    ids = app.enqueue_many(send.build(user_id=number) for number in range(2_500))

    assert ids == sorted(set(ids))
    assert app.backend.queues.counts()["emails"]["ready"] == 2_500


def test_cancelling_tells_what_became_of_a_job_and_listeners_too(app, send):
    heard = []
    app.listen(lambda event: heard.append(event) if isinstance(event, CancelRequested) else None)
    waiting, running = send.enqueue(1), send.using(priority=9).enqueue(2)
    app.backend.lease(["emails"], limit=1, seconds=15)

    fates = app.jobs.cancel([waiting, running, "nobody"]).results

    assert fates == {waiting: "cancelled", running: "asked", "nobody": "unknown"}
    assert heard == [CancelRequested(ended=(waiting,), asked=(running,))]
    assert app.cancel(waiting) == "too_late"
    assert len(heard) == 1


def test_what_cannot_be_cancelled_is_refused_with_the_backend(app, send):
    with pytest.raises(BackendError, match="the backend 'sync://' cannot cancel jobs"):
        app.cancel("nobody", backend="sync://")


def test_enqueue_many_of_nothing_is_nothing(app):
    assert app.enqueue_many([]) == []


def test_a_bad_job_in_the_first_chunk_stores_nothing(app, send):
    jobs = [send.build(user_id=number) for number in range(10)] + [Job(handler="send", payload={"user_id": "x"})]

    with pytest.raises(InvalidPayload):
        app.enqueue_many(jobs)

    assert app.backend.queues.counts() == {}


def test_a_bad_job_in_a_later_chunk_names_what_was_accepted(app, send):
    jobs = [send.build(user_id=number) for number in range(1_000)] + [Job(handler="send", payload={})]

    with pytest.raises(PartialPut, match=r"1000 jobs were enqueued, then one was refused: .*`user_id`") as caught:
        app.enqueue_many(jobs)

    assert len(caught.value.accepted) == 1_000
    assert all(app.backend.jobs.find(id) for id in caught.value.accepted)
    assert app.backend.queues.counts()["emails"]["ready"] == 1_000


def test_listeners_are_told_what_was_enqueued(app, send):
    heard = []
    app.listen(heard.append)

    one = send.enqueue(user_id=7)
    many = app.enqueue_many([send.build(user_id=8), send.build(user_id=9)])

    assert heard == [Enqueued("emails", "send", (one,)), Enqueued("emails", "send", tuple(many))]


def test_no_event_is_made_for_an_enqueue_that_only_the_counters_would_hear(app, send):
    send.enqueue(user_id=7)  # opens the backend

    ours, _ = calls_of(lambda: send.enqueue(user_id=8))

    assert ours["Listeners.__bool__"] == 1
    assert ours["Listeners.emit"] == 0


def test_a_failing_listener_does_not_cost_the_enqueue(app, send):
    app.listen(lambda event: 1 / 0)

    assert app.backend.jobs.find(send.enqueue(user_id=7)) is not None


def test_a_job_may_go_to_another_backend_by_name(clock):
    app = Tenure("memory://", backends={"other": "memory://?"}, clock=clock)

    @app.job
    def ping(): ...

    id = app.enqueue(ping.build(), "other")

    assert app.backend.jobs.find(id) is None
    assert app.open_backend("other").backend.jobs.find(id) is not None


def test_nothing_is_opened_or_created_when_an_app_is_made(tmp_path):
    app = Tenure("sqlite:///jobs.db")

    @app.job
    def ping(): ...

    app.define("ping", {}).build()
    app.close()
    assert list(tmp_path.iterdir()) == []


def test_an_embedded_database_gets_a_key_beside_it(tmp_path):
    with Tenure("sqlite:///jobs.db") as app:
        app.backend  # noqa: B018 - opens it

    assert (tmp_path / "jobs.db").exists()
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("*key*")] == [0o600]


def test_an_app_can_be_used_again_after_it_was_closed(tmp_path):
    app = Tenure("sqlite:///jobs.db")

    @app.job
    def ping(): ...

    id = ping.enqueue()
    app.close()

    assert app.backend.jobs.find(id).state == "ready"
    app.close()


def test_unknown_settings_are_refused_when_an_app_is_made():
    with pytest.raises(SettingsError, match="the arguments: unknown setting `ulr`"):
        Tenure(ulr="memory://")


def test_the_environment_gives_settings(monkeypatch):
    monkeypatch.setenv("TENURE_URL", "memory://")

    assert Tenure().settings.url == "memory://"


def test_keys_of_the_settings_are_used(clock):
    key = new_key("mine")
    app = Tenure("memory://", keys=[key.dump()], clock=clock)

    @app.job
    def ping(): ...

    id = ping.enqueue()

    assert app.backend.jobs.find(id).body.startswith(b'{"v":1,"kid":"mine"')


def test_a_wrong_key_is_refused_without_being_shown():
    app = Tenure("memory://", keys=["k1:hunter2hunter2"])

    with pytest.raises(SettingsError) as caught:
        app.open_backend()

    assert "hunter2" not in str(caught.value)


def test_a_third_party_backend_is_opened_by_its_scheme(schemes, clock):
    opened = []

    def open_url(parts, clock):
        opened.append(parts.hostname)
        return MemoryBackend(clock)

    register_backend("cloud", open_url)
    app = Tenure("cloud://eu.example/jobs", clock=clock)

    assert isinstance(app.backend.inner, MemoryBackend)
    assert opened == ["eu.example"]


def test_a_third_party_backend_may_come_by_entry_point(schemes, tmp_path, monkeypatch):
    (tmp_path / "cloudjobs.py").write_text(
        "from tenure.backends.memory import MemoryBackend\n"
        "def open_url(parts, clock):\n"
        "    return MemoryBackend(clock)\n"
    )
    metadata = tmp_path / "cloudjobs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudjobs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tenure.backends]\ncloudy = cloudjobs:open_url\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert isinstance(Tenure("cloudy://x").backend.inner, MemoryBackend)


def test_an_unknown_scheme_is_told_without_the_password(schemes):
    app = Tenure("rabbit://user:hunter2@host/jobs?token=hunter2")

    with pytest.raises(
        UnknownBackend, match=r"no backend for the URL 'rabbit://host/jobs'; use one of .*memory://"
    ) as told:
        app.open_backend()

    assert "hunter2" not in str(told.value)


def test_an_unknown_option_of_a_url_is_named():
    with pytest.raises(UnknownBackend, match="unknown option 'size' in the memory URL; known: none"):
        Tenure("memory://?size=3").open_backend()


def test_a_shared_backend_without_a_key_is_refused_with_what_to_do(schemes):
    register_backend("cloud", lambda parts, clock: Shared())

    with pytest.raises(SettingsError, match="must be signed, and no key is set; run `tenure key new --save` in "):
        Tenure("cloud://x").open_backend()


def test_in_development_a_shared_backend_without_a_key_uses_the_known_one_and_says_so(schemes, caplog):
    register_backend("cloud", lambda parts, clock: Shared())

    assert Tenure("cloud://x", environment="development").open_backend().wire.ring.kids == ["development"]

    assert [each.getMessage() for each in caplog.records] == [
        "no key is set: messages are signed with a publicly known key"
    ]


def test_a_shared_backend_with_a_key_does_not_accept_the_development_key(schemes):
    register_backend("cloud", lambda parts, clock: Shared())
    known = Tenure("cloud://x", environment="development").open_backend().wire
    ours = Tenure("cloud://x", environment="development", keys=[new_key().dump()]).open_backend().wire

    with pytest.raises(UnknownKey, match="'development'"):
        ours.open(known.seal(Job(handler="greet"), b"{}", "id", now=0), "default")


def test_a_shared_backend_with_a_key_is_used_and_closed(schemes):
    shared = Shared()
    register_backend("cloud", lambda parts, clock: shared)
    app = Tenure("cloud://x", keys=[new_key().dump()])

    @app.job
    def ping(): ...

    ping.enqueue()
    app.close()

    assert shared.closed


def test_discover_imports_every_module_of_a_package(tmp_path, monkeypatch):
    package = tmp_path / "shopjobs"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("seen = []\n")
    (package / "emails.py").write_text("from shopjobs import seen\nseen.append('emails')\n")
    (package / "deep" / "__init__.py").write_text("")
    (package / "deep" / "reports.py").write_text("from shopjobs import seen\nseen.append('reports')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    Tenure("memory://").discover("shopjobs")

    assert sorted(sys.modules["shopjobs"].seen) == ["emails", "reports"]


def test_discover_of_a_module_that_does_not_exist_fails():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        Tenure("memory://").discover("no_such_module")


def test_the_sync_backend_runs_a_job_at_once():
    app, ran = Tenure("sync://"), []

    @app.job
    def note(text: str):
        ran.append(text)

    note.enqueue(text="now")

    assert ran == ["now"]


def test_the_sync_backend_retries_at_once_and_then_shows_the_failure():
    app, ran = Tenure("sync://"), []

    @app.job(max_retries=2)
    def fail():
        ran.append(1)
        raise ValueError("no such user")

    with pytest.raises(JobFailed, match="did not succeed, reason 'retries_exhausted': ValueError: no such user"):
        fail.enqueue()

    assert len(ran) == 3


def test_aliases_of_the_settings_are_known():
    app = Tenure("memory://", aliases={"mail": "emails"})

    assert app.queues.resolve("MAIL") == "emails"


def test_a_job_for_an_alias_goes_to_the_queue_it_stands_for():
    app = Tenure("memory://", aliases={"mail": "emails"})

    @app.job(queue="Mail")
    def send(): ...

    id = send.enqueue()

    assert app.backend.jobs.find(id).queue == "emails"


def test_conflicting_aliases_are_refused():
    app = Tenure("memory://", aliases={"mail": "emails"})

    with pytest.raises(InvalidJob, match="already stands for queue 'emails'"):
        app.queues.alias("Mail", "letters")


def test_every_worker_has_a_name_of_its_own(app):
    assert app.worker().name != app.worker().name


def test_a_function_without_arguments_can_be_defined_without_a_payload():
    app = Tenure("memory://")
    app.job(name="ping")(lambda: None)

    assert app.backend.jobs.find(app.define("ping").dispatch()).state == "ready"


def test_a_weight_that_is_no_share_is_refused():
    with pytest.raises(SettingsError, match=r"gives queue 'a' the weight 0\.0, which must be a number above 0"):
        Tenure("memory://").worker("a", weights={"a": 0.0})


def test_an_unknown_backoff_setting_is_named():
    with pytest.raises(SettingsError, match=r"unknown setting backoff\.bse"):
        Tenure("memory://", backoff={"bse": 1})


@pytest.mark.parametrize("location", [None, "__main__:app"])
def test_children_that_could_not_import_the_app_are_refused_with_what_to_do(tmp_path, location):
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")
    with pytest.raises(SettingsError, match=r"put the app into a module .* or choose the runner inline"):
        app.worker(runner="process", location=location)


def test_children_on_a_backend_of_this_process_are_refused_with_what_to_do():
    app = Tenure("memory://", app="shop:app")
    with pytest.raises(SettingsError, match="choose the runner inline, or a backend that processes share"):
        app.worker(runner="threads")


def test_children_import_the_app_from_where_the_settings_say(tmp_path):
    assert Tenure(f"sqlite:///{tmp_path}/jobs.db", app="shop:app").worker(runner="process")


def test_lanes_and_queues_are_not_mixed():
    with pytest.raises(SettingsError, match="give lanes or these"):
        Tenure("memory://").worker("a", lanes=[Lane(queues=("b",))])


def test_lanes_may_be_named_as_in_the_settings():
    app = Tenure("memory://", lanes={"mail": {"queues": ["a", "b"], "runner": "inline"}}, aliases={"post": "b"})
    events = []
    app.listen(events.append)
    app.worker(lanes=["mail"], burst=True).run()
    assert events[0].queues == ("a", "b")


def test_without_queues_a_worker_serves_those_of_all_lanes():
    app = Tenure("memory://", lanes={"one": {"queues": ["a"]}, "two": {"queues": ["b"], "runner": "threads"}})
    events = []
    app.listen(events.append)
    app.worker(burst=True).run()
    assert events[0].queues == ("a", "b")


def test_lanes_that_share_a_queue_by_an_alias_are_refused():
    lanes = [Lane(name="one", queues=("emails",), runner="inline"), Lane(name="two", queues=("Mail",))]
    with pytest.raises(SettingsError, match="queue 'emails' is in the lanes 'one' and 'two'"):
        Tenure("memory://", aliases={"mail": "emails"}).worker(lanes=lanes)
