"""The page of dead letters: groups, filters, the panel that replays them, and the actions."""

import json
import threading
from datetime import timedelta
from secrets import token_hex

import pytest
from msgspec import structs

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.letter_actions import DeleteLetters, ExportedLetters, ReplayLetters, export_letters
from tenure.app.dashboard.letter_index import (
    FIRST_LETTERS,
    MAX_LETTERS,
    LetterIndex,
    LetterSnapshot,
    alike,
    letter_of,
    read_letters,
)
from tenure.app.dashboard.letters import LettersQuery
from tenure.backends.records import JobRecord
from tenure.errors import AccessDenied, ActionRefused, InvalidFilter
from tenure.wire.signing import new_key
from tests.support.servicebus import Emulator
from tests.support.waiting import WAIT_SECONDS

ADMIN = everything("ada")
MAIL_ONLY = Access(user="mia", role="admin", queues=("mail",))

_JOB = JobRecord(
    id="", queue="q", handler="h", name=None, state="dead", priority=5, attempts=1, crashes=0, fence=1, enqueued_at=0,
    due_at=0,
)  # fmt: skip

everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "postgres", "redis", "beanstalk"], indirect=True)


@pytest.fixture(params=["sqlite"])
def url(request, tmp_path):
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        case "redis":
            return request.getfixturevalue("redis_url")
        case "beanstalk":
            return f"{request.getfixturevalue('beanstalk_url')}?prefix=test-{token_hex(6)}."
        case name:
            place, empty = request.getfixturevalue(f"{name}_place")
            empty()
            return place


@pytest.fixture
def app(url, tmp_path):
    store = {"store": f"sqlite:///{tmp_path}/store.db"} if url.startswith("beanstalk") else {}
    with Tenure(url, keys=[new_key().dump()], environment="development", **store) as app:
        app.is_mended = False

        @app.job(queue="invoices")
        def charge(order: int, card: str = "4711", password: str = "") -> None:
            if not app.is_mended:
                raise ConnectionError(f"gateway 'pay-{order}' did not answer within {order} s")

        @app.job(queue="mail")
        def receipt(order: int) -> None:
            raise KeyError("vat_id")

        yield app


@pytest.fixture
def dashboard(app):
    dashboard = Dashboard(app)
    yield dashboard
    dashboard.close()


def work(app):
    app.worker("invoices", "mail", burst=True).run()


@pytest.fixture
def shop(app):
    """Three charges and one receipt died."""
    charge, receipt = (app.registry.get(name) for name in ("charge", "receipt"))
    assert charge
    assert receipt
    app.enqueue_many(app.define("charge", {"order": number, "password": "hush"}).build() for number in (1, 2, 3))
    app.enqueue(app.define("receipt", {"order": 1}).named("order 1").build())
    work(app)


@everywhere
def test_letters_are_grouped_by_error_and_handler_the_largest_group_first(dashboard, shop):
    page = dashboard.read(LettersQuery(), ADMIN)
    charges, receipts = page.groups
    assert (charges.title, charges.handler, charges.queues, charges.count) == (
        *("ConnectionError", "charge", ("invoices",)),
        3,
    )
    assert charges.text.startswith("gateway 'pay-")
    assert receipts.title == "KeyError: 'vat_id'"
    assert "test_letters.py:" in receipts.text
    assert (page.group_count, page.total, page.read, page.known) == (2, 4, 4, 4)
    assert sum(charges.deaths) == 3
    assert charges.first_at <= charges.last_at


@everywhere
def test_an_open_group_shows_its_first_letters_and_a_dry_run(app, dashboard, shop):
    key = dashboard.read(LettersQuery(), ADMIN).groups[0].key
    page = dashboard.read(LettersQuery(group=key), ADMIN)
    assert len(page.groups[0].letters) == 3
    assert page.groups[1].letters == ()
    assert page.groups[0].letters[0].error.startswith("ConnectionError: gateway")
    run = page.panel.dry_run
    assert (page.panel.total, run.checked, run.opened, run.deployed, run.fit, run.done_before) == (3, 3, 3, 3, 3, 0)
    assert run.is_clean
    assert not run.is_cut


@everywhere
def test_a_trial_shows_how_its_letters_end_and_then_the_rest_is_replayed(app, dashboard, shop):
    key = dashboard.read(LettersQuery(), ADMIN).groups[0].key
    record = dashboard.act(ReplayLetters(all=True, group=key, first=2, token="t1"), ADMIN, "the gateway is back")
    assert record.counts == {"replayed": 2}
    assert record.target == f"group={key}, the first 2 as a trial"
    trial = dashboard.read(LettersQuery(group=key), ADMIN).panel.trial
    assert trial.is_running
    assert not trial.ended_well
    app.is_mended = True
    work(app)
    dashboard.sources.cache.clear()
    panel = dashboard.read(LettersQuery(group=key), ADMIN).panel
    assert (panel.trial.count("succeeded"), panel.trial.by, panel.total) == (2, "ada", 1)
    assert panel.trial.ended_well
    assert dashboard.act(ReplayLetters(all=True, group=key), ADMIN, "all well").counts == {"replayed": 1}


def test_a_trial_that_dies_again_does_not_end_well(app, dashboard, shop, eventually):
    key = dashboard.read(LettersQuery(), ADMIN).groups[0].key
    dashboard.act(ReplayLetters(all=True, group=key, first=1), ADMIN, "try")
    work(app)
    dashboard.sources.cache.clear()
    panel = dashboard.read(LettersQuery(group=key), ADMIN).panel
    (letter,) = panel.trial.letters
    assert (letter.state, panel.trial.is_running, panel.trial.ended_well) == ("died", False, False)
    assert "did not answer" in letter.error
    eventually(lambda: dashboard.read(LettersQuery(group=key), ADMIN).panel.total == 3)


def test_a_trial_is_started_once_by_one_form(dashboard, shop):
    key = dashboard.read(LettersQuery(), ADMIN).groups[0].key
    command = ReplayLetters(all=True, group=key, first=1, token="once")
    dashboard.act(command, ADMIN, "try")
    again = dashboard.act(command, ADMIN, "try")
    assert command.outcome(again.counts).startswith("This trial was started by the same form before")
    assert dashboard.read(LettersQuery(), ADMIN).total == 3


def test_letters_that_died_after_the_page_was_shown_are_left_alone(app, dashboard, shop):
    before = app.clock.now()
    app.enqueue(app.define("charge", {"order": 9}).build())
    work(app)
    dashboard.sources.cache.clear()
    command = DeleteLetters(all=True, filter="queue=invoices", before=before)
    assert dashboard.preview(command, ADMIN).total == 3
    assert dashboard.act(command, ADMIN, "old").counts == {"deleted": 3}


def test_a_replay_of_letters_that_die_at_once_ends(app, dashboard, shop, monkeypatch):
    """A worker that runs beside the action makes them dead again; the action takes each once."""
    replay = type(app.backend.dead_letters).replay

    def replay_and_work(letters, ids):
        replayed = replay(letters, ids)
        work(app)
        return replayed

    monkeypatch.setattr(type(app.backend.dead_letters), "replay", replay_and_work)
    monkeypatch.setattr("tenure.app.dashboard.letter_selection.DEAD_LETTER_PAGE", 2)
    assert dashboard.act(ReplayLetters(all=True), ADMIN, "again").counts == {"replayed": 4}


@everywhere
def test_letters_are_chosen_by_their_ids(dashboard, shop):
    rows = dashboard.read(LettersQuery(by="none"), ADMIN).letters
    command = DeleteLetters(ids=(rows[0].id, "nonsense"))
    preview = dashboard.preview(command, ADMIN)
    assert (preview.total, preview.notes) == (1, ("1 of the chosen are no dead letters any more.",))
    record = dashboard.act(command, ADMIN, "test")
    assert (record.counts, record.target) == ({"deleted": 1}, f"{rows[0].id}, nonsense")
    assert dashboard.read(LettersQuery(by="none"), ADMIN).total == 3


class TestFilter:
    def test_letters_are_found_by_queue_handler_reason_error_and_text(self, dashboard, shop):
        def found(**fields):
            return dashboard.read(LettersQuery(**fields), ADMIN).total

        assert found(queue=("mail",)) == 1
        assert found(handler=("char*",)) == 3
        assert found(not_handler=("char*",)) == 1
        assert found(reason=("retries_exhausted",)) == 4
        assert found(error=("vat_id",)) == 1
        assert found(text=("PAY-2",)) == 1
        assert found(since="1h") == 4
        assert found(until="1h") == 0

    def test_the_text_of_the_filter_bar_becomes_an_address(self, dashboard, shop):
        page = dashboard.read(LettersQuery(q="queue:mail refused", by="handler", reason=("timeout",)), ADMIN)
        assert page.redirect == "/dead?queue=mail&reason=timeout&text=refused&by=handler"

    def test_a_wrong_text_of_the_filter_bar_is_explained_with_a_suggestion(self, dashboard, shop):
        page = dashboard.read(LettersQuery(q="queues:mail", handler=("charge",)), ADMIN)
        assert (page.status, page.redirect, page.fault.suggestion) == (400, None, "queue")
        assert page.fault.query == "queue=mail&handler=charge"

    def test_a_wrong_filter_is_explained_and_shows_nothing(self, dashboard, shop):
        page = dashboard.read(LettersQuery(since="yesterday or so"), ADMIN)
        assert (page.status, page.groups, page.panel) == (400, (), None)
        assert "is not a time" in page.fault.text
        with pytest.raises(InvalidFilter, match="have no key “state”"):
            dashboard.act(ReplayLetters(all=True, filter="state=ready"), ADMIN, "test")

    def test_letters_are_grouped_by_handler_or_not_at_all(self, dashboard, shop):
        groups = dashboard.read(LettersQuery(by="handler"), ADMIN).groups
        assert [(group.title, group.count) for group in groups] == [("charge", 3), ("receipt", 1)]
        page = dashboard.read(LettersQuery(by="none"), ADMIN)
        assert len(page.letters) == page.total == 4
        times = [letter.died_at for letter in page.letters]
        assert times == sorted(times, reverse=True)
        rest = dashboard.read(LettersQuery(by="none", group=groups[0].key), ADMIN)
        assert {letter.handler for letter in rest.letters} == {"charge"}

    def test_single_letters_come_in_pages(self, app, dashboard, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.letters.PAGE_LETTERS", 2)
        for number in range(5):
            app.dead_letters().store({"order": number}, "charge", "by hand")
        first = dashboard.read(LettersQuery(by="none"), ADMIN)
        second = dashboard.read(LettersQuery(by="none", after=first.next), ADMIN)
        third = dashboard.read(LettersQuery(by="none", after=second.next), ADMIN)
        ids = [letter.id for page in (first, second, third) for letter in page.letters]
        assert len(set(ids)) == len(ids) == 5
        assert (first.first, second.first, third.first, third.next) == (1, 3, 5, None)


class TestAccess:
    def test_a_user_sees_and_changes_only_letters_of_own_queues(self, dashboard, shop):
        page = dashboard.read(LettersQuery(by="none"), MAIL_ONLY)
        assert [letter.queue for letter in page.letters] == ["mail"]
        assert (page.read, page.known) == (1, 1)
        ids = tuple(letter.id for letter in dashboard.read(LettersQuery(by="none"), ADMIN).letters)
        assert dashboard.act(ReplayLetters(ids=ids), MAIL_ONLY, "test").counts == {"replayed": 1}
        assert dashboard.act(DeleteLetters(all=True), MAIL_ONLY, "test").counts == {}
        assert dashboard.act(DeleteLetters(all=True, filter="queue=invoices"), MAIL_ONLY, "test").counts == {}
        lines = export_letters(dashboard.sources, MAIL_ONLY, ExportedLetters(all=True, filter="queue=invoices"))
        assert list(lines) == []

    def test_viewers_change_nothing_and_operators_delete_nothing(self, dashboard, shop):
        viewer, operator = Access(user="eve"), Access(user="otto", role="operator")
        with pytest.raises(AccessDenied):
            dashboard.act(ReplayLetters(all=True), viewer, "test")
        with pytest.raises(AccessDenied):
            export_letters(dashboard.sources, viewer, ExportedLetters(all=True))
        with pytest.raises(AccessDenied):
            dashboard.act(DeleteLetters(all=True), operator, "test")
        key = dashboard.read(LettersQuery(), viewer).groups[0].key
        assert dashboard.read(LettersQuery(group=key), viewer).panel is None

    def test_nothing_is_changed_unless_letters_were_chosen(self, dashboard, shop):
        with pytest.raises(ActionRefused, match="no dead letters were chosen"):
            dashboard.act(DeleteLetters(filter="queue=mail"), ADMIN, "test")
        with pytest.raises(ActionRefused, match="a trial has 1 to 50 letters, not 51"):
            dashboard.act(ReplayLetters(all=True, first=51), ADMIN, "test")

    def test_errors_are_shown_after_redaction_and_not_searched_by_who_sees_them_redacted(self, dashboard, shop):
        def hide(info):
            return type(info)(**{**{name: getattr(info, name) for name in info.__slots__}, "history": ()})

        hidden = Access(user="ned", role="operator", redact=hide)
        page = dashboard.read(LettersQuery(group=dashboard.read(LettersQuery(), ADMIN).groups[0].key), hidden)
        assert (page.groups[0].title, page.groups[0].text) == ("retries_exhausted", "no error was recorded")
        assert page.groups[0].letters[0].error is None
        assert dashboard.read(LettersQuery(text=("gateway",)), hidden).total == 0
        (line, *_) = export_letters(dashboard.sources, hidden, ExportedLetters(all=True, filter="queue=mail"))
        assert json.loads(line)["history"] == []


class TestExport:
    @everywhere
    def test_letters_are_exported_as_lines_of_json_with_secrets_masked_and_recorded(self, app, dashboard, shop):
        lines = list(
            export_letters(dashboard.sources, ADMIN, ExportedLetters(all=True, filter="handler=charge"), "audit")
        )
        found = [json.loads(line) for line in lines]
        assert [each["payload"]["order"] for each in found] == [1, 2, 3]
        assert found[0]["payload"]["password"] == "***"
        assert all(line.endswith(b"\n") for line in lines)
        (record,) = app.parts().audit.page(limit=10)
        assert (record.action, record.target, record.state, record.counts, record.why) == (
            *("dead.export", "handler=charge", "done", {"exported": 3}),
            "audit",
        )

    def test_an_export_that_is_stopped_is_recorded_as_such(self, app, dashboard, shop):
        lines = export_letters(dashboard.sources, ADMIN, ExportedLetters(all=True))
        next(lines)
        lines.close()
        (record,) = app.parts().audit.page(limit=10)
        assert (record.state, record.counts) == ("stopped", {"exported": 1})


class TestDryRun:
    def hindrances(self, dashboard, **fields):
        run = dashboard.read(LettersQuery(**fields), ADMIN).panel.dry_run
        return [(each.what, each.count) for each in run.hindrances]

    def test_a_paused_queue_an_open_breaker_and_a_done_key_are_found(self, app, dashboard):
        guarded = app.define("charge", {"order": 1}).breaker("payments").idempotency_key("order-1").build()
        app.enqueue_many([guarded])
        work(app)
        app.is_mended = True
        app.enqueue(app.define("charge", {"order": 2}).idempotency_key("order-1").build())
        work(app)
        for _ in range(4):  # the job has failed once
            with pytest.raises(ConnectionError), app.guards.breaker("payments").closed():
                raise ConnectionError
        app.guards.pause("invoices", "month end")
        dashboard.sources.recorder.read_now()
        assert self.hindrances(dashboard, queue=("invoices",)) == [
            ("queue invoices", 1),
            ("the circuit breaker 'payments'", 1),
        ]
        app.guards.breaker("payments").reset()
        dashboard.sources.cache.clear()
        run = dashboard.read(LettersQuery(queue=("invoices",)), ADMIN).panel.dry_run
        assert run.done_before == 1
        assert not run.is_clean

    def test_a_handler_that_is_gone_and_a_payload_that_does_not_fit_are_counted(self, app, dashboard, url):
        @app.job(queue="mail", name="old")
        def old(order: int) -> None: ...

        app.dead_letters().store({"order": 1}, "old", "by hand")
        app.dead_letters().store({"order": 1}, "charge", "by hand")
        with Tenure(url, keys=app.settings.keys, environment="development") as newer:

            @newer.job(queue="invoices")
            def charge(order: str) -> None: ...

            board = Dashboard(newer)
            run = board.read(LettersQuery(reason=("by hand",)), ADMIN).panel.dry_run
            board.close()
            assert (run.checked, run.opened, run.deployed, run.fit) == (2, 2, 1, 0)

    def test_a_dashboard_without_handlers_and_with_another_key_says_what_it_does_not_know(self, app, shop, url):
        with Tenure(url, keys=[new_key().dump()], environment="development") as settings_only:
            board = Dashboard(settings_only, has_handlers=False)
            run = board.read(LettersQuery(queue=("invoices",)), ADMIN).panel.dry_run
            board.close()
            assert (run.checked, run.opened, run.deployed, run.fit) == (3, 0, None, None)


class TestBounds:
    def test_the_dry_run_of_a_large_group_checks_its_oldest_letters(self, app, dashboard, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.letter_dry_run._FEW", 2)
        monkeypatch.setattr("tenure.app.dashboard.letter_dry_run.MAX_CHECKED", 3)
        for number in range(5):
            app.dead_letters().store({"order": number}, "charge", "by hand")
        run = dashboard.read(LettersQuery(queue=("invoices",)), ADMIN).panel.dry_run
        assert (run.checked, run.opened, run.is_cut) == (3, 3, True)

    def test_the_newest_letters_are_read_and_the_page_says_that_there_are_more(self, app, shop):
        snapshot = read_letters(app.backend, limit=3)
        assert (len(snapshot.letters), snapshot.is_cut, snapshot.has_newest) == (3, True, True)
        times = [letter.died for letter in read_letters(app.backend).letters]
        assert [letter.died for letter in snapshot.letters] == times[:3] == sorted(times, reverse=True)[:3]

    @pytest.mark.parametrize("url", ["beanstalk"], indirect=True)
    def test_a_broker_reads_the_oldest(self, app, shop):
        snapshot = read_letters(app.backend, limit=3)
        assert (len(snapshot.letters), snapshot.is_cut, snapshot.has_newest) == (3, True, False)

    @pytest.mark.filterwarnings("ignore::ResourceWarning")  # the SDK leaves sockets to the garbage collector
    def test_service_bus_shows_and_replays_its_letters(self, tmp_path):
        store = f"sqlite:///{tmp_path}/store.db"
        with (
            Emulator("mail", lock=30.0) as emulator,
            Tenure(f"servicebus:{emulator.connection_string}?queues=mail", keys=[new_key().dump()], store=store) as app,
        ):

            @app.job(queue="mail")
            def receipt(order: int) -> None:
                raise KeyError("vat_id")

            receipt.enqueue(order=1)
            app.worker("mail", burst=True).run()
            board = Dashboard(app)
            page = board.read(LettersQuery(), ADMIN)
            assert [(group.title, group.count) for group in page.groups] == [("KeyError: 'vat_id'", 1)]
            panel = board.read(LettersQuery(group=page.groups[0].key), ADMIN).panel
            assert (panel.total, panel.dry_run.opened, panel.dry_run.fit) == (1, 1, 1)
            command = ReplayLetters(all=True, group=page.groups[0].key)
            assert board.act(command, ADMIN, "test").counts == {"replayed": 1}
            assert board.read(LettersQuery(), ADMIN).total == 0
            board.close()

    def test_the_page_tells_when_the_oldest_letter_is_deleted(self, app, dashboard, shop):
        page = dashboard.read(LettersQuery(), ADMIN)
        oldest = min(group.first_at for group in page.groups)
        assert page.oldest_is_deleted_at == oldest + timedelta(days=30)
        assert page.retention_days == 30

    def test_viewers_share_what_was_read_until_something_has_changed(self, app, shop):
        reads, state = [], ["unchanged"]

        def read(limit):
            reads.append(limit)
            return LetterSnapshot(letters=())

        index = LetterIndex(read, lambda: state[0])
        assert index.latest() is index.latest()
        assert len(reads) == 1

    def test_a_change_is_read_in_the_background(self, monkeypatch, eventually):
        monkeypatch.setattr("tenure.app.dashboard.letter_index.MIN_AGE_SECONDS", 0.0)
        reads = []

        def read(limit):
            reads.append(limit)
            return LetterSnapshot(letters=(), is_cut=len(reads) > 1)

        state = ["before"]
        index = LetterIndex(read, lambda: state[0])
        index.latest()
        state[0] = "after"
        eventually(lambda: index.latest().is_cut)
        assert len(reads) == 2

    def test_the_first_viewer_waits_only_for_the_newest(self, eventually):
        all_read, reads = threading.Event(), []

        def read(limit):
            reads.append(limit)
            if len(reads) > 1:
                all_read.wait(WAIT_SECONDS)
            return LetterSnapshot(letters=letters(limit), is_cut=True)

        index = LetterIndex(read, lambda: "unchanged")
        assert len(index.latest().letters) == len(index.latest().letters) == FIRST_LETTERS
        all_read.set()
        eventually(lambda: len(index.latest().letters) == MAX_LETTERS)
        assert reads == [FIRST_LETTERS, MAX_LETTERS]

    def test_what_an_action_changed_leaves_at_once_and_stays_away(self, monkeypatch, eventually):
        monkeypatch.setattr("tenure.app.dashboard.letter_index.MIN_AGE_SECONDS", 0.0)
        reads = [threading.Event() for _ in range(3)]
        begun, go_on = iter(reads), [threading.Event() for _ in range(2)]
        results = iter([(), (go_on[0],), (go_on[1],)])

        def read(limit):
            next(begun).set()
            for event in next(results):
                event.wait(WAIT_SECONDS)
            return LetterSnapshot(letters=letters(3))

        index = LetterIndex(read, lambda: "unchanged")
        assert ids(index.latest()) == ["0", "1", "2"]
        index.forget(["0"])
        assert ids(index.latest()) == ["1", "2"]
        assert reads[1].wait(WAIT_SECONDS)
        index.forget(["2"])  # while a thread reads the letters as they were before
        go_on[0].set()
        eventually(lambda: ids(index.latest()) == ["0", "1"])  # the first has died again, as far as is known
        index.forget(["9"])  # of no letter, so that it changes nothing
        assert reads[2].wait(WAIT_SECONDS)
        go_on[1].set()
        eventually(lambda: ids(index.latest()) == ["0", "1", "2"])

    def test_an_action_does_not_make_the_next_viewer_read(self, app, dashboard, shop, monkeypatch):
        total = dashboard.read(LettersQuery(), ADMIN).total
        chosen = read_letters(app.backend).letters[0].record.id
        monkeypatch.setattr("tenure.app.dashboard.letter_index.MIN_AGE_SECONDS", 60.0)
        monkeypatch.setattr("tenure.app.dashboard.letter_index.read_letters", None)
        dashboard.act(DeleteLetters(ids=(chosen,)), ADMIN, "done by hand")
        assert dashboard.read(LettersQuery(), ADMIN).total == total - 1


def letters(count):
    return tuple(letter_of(structs.replace(_JOB, id=str(number))) for number in range(count))


def ids(snapshot):
    return [letter.record.id for letter in snapshot.letters]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("order 88377 failed", "order 12 failed"),
        ("job 019b76db-1d30-7c40-a21e-0b7ae62cd6dd is gone", "job 029b76db-1d30-7c40-a21e-0b7ae62cd6dd is gone"),
        ("user 'ann' is unknown", "user 'bob' is unknown"),
        ("timed out after 10.5 s", "timed out after 3 s"),
        ("can't reach host's port 80", "can't reach host's port 443"),
        ("bad\nline 1", "bad\nline 2"),
    ],
)
def test_errors_that_differ_in_numbers_ids_and_quoted_values_are_alike(first, second):
    assert alike(first) == alike(second)


def test_errors_about_other_things_are_not_alike():
    assert alike("disk is full") != alike("disk is slow")
    assert alike("'vat_id'") != alike("'name'")
