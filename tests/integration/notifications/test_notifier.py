"""Notifications beside a worker: sent from a thread of their own, limited, counted, and never delaying jobs."""

import json
import logging
import threading

import pytest

from tenure import Context, Notification, Tenure
from tenure.errors import NotDelivered, SettingsError
from tenure.events import Run, Settled, Settlement, Status, TickSkipped
from tenure.notifications import notifier
from tests.support.http_server import response

LOOPBACK = {"schemes": ["http"], "networks": ["127.0.0.0/8"]}


@pytest.fixture
def make_app():
    apps = []

    def make(**settings):
        app = Tenure("memory://", **settings)
        apps.append(app)

        @app.job
        def greet(name: str) -> str:
            return f"hello {name}"

        @app.job
        def fail(word: str) -> None:
            raise ValueError(word)

        return app

    yield make
    for app in apps:
        app.close()


def run(app):
    app.worker(burst=True).run()
    assert app.notifications.flush(60)


def counted(app):
    counters = app.metrics.snapshot()["counters"]
    return {name.partition("|")[2]: int(count) for name, count in counters.items() if name.startswith("notifications")}


def test_people_are_mailed_when_a_job_dies(make_app, mail_server):
    box = mail_server()
    mail = {"host": "localhost", "port": box.port, "sender": "tenure@example.com", "security": "none"}
    app = make_app(mail=mail, notifications={"ops": {"on": ["dead"], "mail": ["ops@example.com"]}})
    app.define("greet", {"name": "Ada"}).dispatch()
    id = app.define("fail", {"word": "password=hunter2"}).named("first").dispatch()
    run(app)
    sent = box.mails.get(timeout=30)
    assert sent["Subject"] == "[tenure] fail is dead on default: retries_exhausted"
    text = sent.get_content()
    assert f"id: {id}" in text
    assert "name: first" in text
    assert "error: ValueError: password=***" in text
    assert box.mails.empty()
    assert counted(app) == {"notification=ops;outcome=sent": 1}


def test_a_webhook_gets_the_notice_as_json(make_app, website):
    server = website()
    hook = {"on": ["success"], "webhook": f"http://localhost:{server.port}/hooks/1", "text": "$handler gave $output"}
    app = make_app(http={**LOOPBACK, "ports": [server.port]}, notifications={"chat": hook})
    id = app.define("greet", {"name": "Ada"}).dispatch()
    run(app)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    told = json.loads(body)
    assert head.startswith(b"POST /hooks/1 HTTP/1.1")
    assert (told["event"], told["id"], told["handler"], told["text"]) == (
        "success",
        id,
        "greet",
        "greet gave hello Ada",
    )
    assert app.settings.http.allow == ()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://localhost/x", "scheme"),
        ("http://localhost/x", "scheme 'http'"),
        ("https://localhost:8080/x", "port 8080"),
        ("https://user:secret@localhost/", "the webhook cannot be used"),
    ],
)
def test_a_webhook_that_the_settings_do_not_permit_is_refused_at_once(make_app, url, says):
    with pytest.raises(SettingsError, match=f"notification 'chat': .*{says}") as caught:
        make_app(notifications={"chat": {"webhook": url}})
    assert "secret" not in str(caught.value)


def test_a_webhook_does_not_go_to_a_private_address_unless_that_is_opened(make_app, website, caplog):
    server = website()
    hook = {"on": ["success"], "webhook": f"http://localhost:{server.port}/"}
    app = make_app(http={"schemes": ["http"], "ports": [server.port]}, notifications={"chat": hook})
    app.define("greet", {"name": "Ada"}).dispatch()
    run(app)
    assert server.requests == []
    assert "notification 'chat' was not delivered" in caplog.text
    assert counted(app) == {"notification=chat;outcome=failed": 1}


def test_a_webhook_that_answers_badly_fails_no_job(make_app, website):
    server = website(response(500, b"no"))
    hook = {"on": ["success"], "webhook": f"http://localhost:{server.port}/"}
    app = make_app(http={**LOOPBACK, "ports": [server.port]}, notifications={"chat": hook})
    id = app.define("greet", {"name": "Ada"}).dispatch()
    run(app)
    assert app.backend.jobs.find(id).state == "done"
    assert counted(app) == {"notification=chat;outcome=failed": 1}


def test_a_job_of_ours_is_told_and_never_of_itself(make_app):
    app = make_app()
    seen = []

    @app.job
    def page(ctx: Context) -> None:
        seen.append(ctx.meta["notice"])
        raise RuntimeError("the pager is broken")

    app.notify("all", Notification(on=("success", "failure", "dead"), job="page"))
    app.define("fail", {"word": "no"}).dispatch()
    for _ in range(3):
        run(app)
    assert [(notice["event"], notice["handler"], notice["error"]) for notice in seen] == [
        ("dead", "fail", "ValueError: no")
    ]


def test_a_worker_does_not_start_while_a_notification_names_no_job(make_app):
    app = make_app(notifications={"ops": {"job": "nobody"}})
    with pytest.raises(SettingsError, match=r"a notification names a job that cannot be enqueued.*nobody"):
        app.worker()


def test_a_rate_leaves_notices_out_and_the_next_says_how_many(make_app, clock):
    app = make_app(clock=clock)
    letters = []
    app.notify("ops", Notification(on=("missed",), job="greet", rate="1/min"))
    take_over(app, letters.append)
    for _ in range(3):
        app.listeners.emit(TickSkipped("nightly", 0, "missed"))
    assert app.notifications.flush(60)
    clock.advance(60)
    app.listeners.emit(TickSkipped("nightly", 0, "missed"))
    assert app.notifications.flush(60)
    assert [letter.notice.left_out for letter in letters] == [0, 2]
    assert counted(app) == {"notification=ops;outcome=sent": 2, "notification=ops;outcome=limited": 2}


def test_a_rate_is_shared_by_all_who_share_a_store(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/guards.db"
    letters = []
    for app in (make_app(store=url), make_app(store=url)):
        app.notify("ops", Notification(on=("missed",), job="greet", rate="1/day"))
        take_over(app, letters.append)
        app.listeners.emit(TickSkipped("nightly", 0, "missed"))
        assert app.notifications.flush(60)
    assert len(letters) == 1


def stuck(app):
    """A delivery that begins, which is told, and ends when it may."""
    busy, free = threading.Event(), threading.Event()

    def deliver(letter):
        busy.set()
        assert free.wait(60)

    app.notify("ops", Notification(on=("success",), job="page", rate="1000/s burst 500"))
    take_over(app, deliver)
    return busy, free


def test_what_does_not_fit_is_dropped_and_the_worker_goes_on(make_app, monkeypatch):
    monkeypatch.setattr(notifier, "MAX_WAITING_NOTICES", 5)
    app = make_app()
    busy, free = stuck(app)
    app.listeners.emit(settled(1))
    assert busy.wait(60)
    app.listeners.emit(settled(20))  # returns, although nobody is told before it does
    free.set()
    assert app.notifications.flush(60)
    assert counted(app) == {"notification=ops;outcome=sent": 6, "notification=ops;outcome=dropped": 15}


def test_closing_gives_up_what_cannot_be_told_in_time(make_app):
    app = make_app()
    busy, free = stuck(app)
    app.listeners.emit(settled(3))
    assert busy.wait(60)
    app.notifications.close(timeout=0.05)
    assert counted(app) == {"notification=ops;outcome=dropped": 2}
    free.set()


def test_an_app_that_was_closed_tells_again_when_it_is_used_again(make_app):
    app = make_app()
    letters = []
    app.notify("ops", Notification(on=("success",), job="page"))
    take_over(app, letters.append)
    before = set(threading.enumerate())  # a notifier of an earlier test may still end
    for _ in range(2):
        app.listeners.emit(settled(1))
        app.close()
    assert len(letters) == 2
    started = set(threading.enumerate()) - before
    assert [thread for thread in started if thread.name == "tenure-notifier"] == []


def test_what_goes_wrong_on_the_way_does_not_end_the_telling(make_app, caplog):
    app = make_app()
    problems = [ZeroDivisionError("a bug"), NotDelivered("nobody home")]
    letters = []

    def deliver(letter):
        if problems:
            raise problems.pop()
        letters.append(letter)

    app.notify("ops", Notification(on=("success",), job="page"))
    take_over(app, deliver)
    with caplog.at_level(logging.ERROR):
        app.listeners.emit(settled(3))
        assert app.notifications.flush(60)
    assert len(letters) == 1
    assert "nobody home" in caplog.text
    assert "a bug" in caplog.text


def test_two_notifications_of_one_name_are_refused(make_app):
    app = make_app(notifications={"ops": {"job": "greet"}})
    with pytest.raises(SettingsError, match="two notifications 'ops'"):
        app.notify("ops", Notification(job="greet"))


def test_a_mistake_in_the_settings_is_told_with_the_name(make_app):
    with pytest.raises(SettingsError, match="notification 'ops': Invalid enum value 'died'"):
        make_app(notifications={"ops": {"on": ["died"], "job": "greet"}})
    with pytest.raises(SettingsError, match="notification 'ops': 'often' is not a rate"):
        make_app(notifications={"ops": {"rate": "often", "job": "greet"}})


def settled(count):
    run = Run("greet", 0, 0.1)
    return Settled(tuple(Settlement(f"id-{n}", "default", Status.ACKED, 1, None, False, run) for n in range(count)))


def take_over(app, deliver):
    """Have this called instead of whatever would be told."""
    (subscription,) = app.notifications._subscriptions
    app.notifications._subscriptions[:] = [
        notifier.Subscription(subscription.name, subscription.notification, {"test": deliver})
    ]
