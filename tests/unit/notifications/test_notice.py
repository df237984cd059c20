"""Which events become a notice, and its text."""

import pytest

from tenure.backends.records import JobRecord
from tenure.definition.failure import Failure
from tenure.events import Enqueued, Run, Settled, Settlement, Status, TickFailed, TickSkipped, TickSucceeded
from tenure.notifications.notice import Notice, notices_of, render, with_record
from tenure.recipients import TRIGGERS, Mail, Notification
from tenure.redaction import Redactor

NOW = 1_700_000_000_000_000
ALL = Notification(on=TRIGGERS, job="page")
RUN = Run("greet", NOW, 1.23456, worker="host:1")


def settled(status=Status.ACKED, failed=False, queue="mail", run=RUN, reason=None):
    return Settled((Settlement("id-1", queue, status, 2, reason, failed, run),))


def told(event, notification=ALL, own=()):
    return list(notices_of(event, notification, own, NOW))


@pytest.mark.parametrize(
    ("event", "happened"),
    [
        (settled(), ["success"]),
        (settled(Status.REQUEUED, failed=True), ["failure"]),
        (settled(Status.DEAD_LETTERED, failed=True), ["dead"]),
        (settled(Status.REJECTED, run=None), ["dead"]),
        (settled(Status.POSTPONED), []),
        (settled(Status.CANCELLED), []),
        (settled(Status.SKIPPED_IDEMPOTENT), []),
        (TickSkipped("nightly", NOW, "missed"), ["missed"]),
        (TickSkipped("nightly", NOW, "an earlier tick has not ended"), ["missed"]),
        (TickSkipped("nightly", NOW, "paused"), []),
        (TickSkipped("nightly", NOW, "only in production; this is staging"), []),
        (TickFailed("nightly", NOW, "id-1", "timeout"), ["tick_failed"]),
        (TickSucceeded("nightly", NOW, "id-1"), []),
        (Enqueued("mail", "greet", ("id-1",)), []),
    ],
)
def test_an_event_is_told_as_what_happened(event, happened):
    assert [notice.event for notice in told(event)] == happened


def test_a_death_is_told_as_a_failure_to_those_who_asked_for_failures_alone():
    (notice,) = told(settled(Status.DEAD_LETTERED, failed=True), Notification(on=("failure",), job="page"))
    assert notice.event == "failure"


@pytest.mark.parametrize(
    ("notification", "count"),
    [
        (Notification(on=("success",), job="page"), 1),
        (Notification(on=("dead",), job="page"), 0),
        (Notification(on=("success",), job="page", queues=("mail", "other")), 1),
        (Notification(on=("success",), job="page", queues=("other",)), 0),
        (Notification(on=("success",), job="page", handlers=("greet",)), 1),
        (Notification(on=("success",), job="page", handlers=("other",)), 0),
    ],
)
def test_only_what_was_asked_for_is_told(notification, count):
    assert len(told(settled(), notification)) == count


def test_nothing_is_told_of_the_jobs_that_tell():
    assert told(settled(), own=("greet",)) == []


def test_a_notice_says_what_is_known():
    (notice,) = told(settled(Status.DEAD_LETTERED, failed=True, reason="timeout"))
    assert notice.facts() == {
        "event": "dead", "id": "id-1", "queue": "mail", "handler": "greet", "reason": "timeout", "attempt": 2,
        "seconds": 1.235, "worker": "host:1", "at": "2023-11-14T22:13:20+00:00",
    }  # fmt: skip


def record(**fields):
    given = {"queue": "mail", "name": "first", "state": "dead", "priority": 5, "attempts": 1, "crashes": 0, "fence": 1}
    return JobRecord(**given, id="id-1", handler="greet", enqueued_at=0, due_at=0, **fields)


def test_the_error_of_a_failure_and_the_output_of_a_success_are_told():
    failures = (Failure(type="ValueError", message="no", at=0, attempt=1),)
    dead = with_record(Notice(event="dead"), record(failures=failures, output="x"))
    assert (dead.handler, dead.name, dead.error, dead.output) == ("greet", "first", "ValueError: no", None)
    done = with_record(Notice(event="success"), record(failures=failures, output="hello"))
    assert (done.error, done.output) == (None, "hello")


def test_templates_are_filled_in_and_what_is_not_known_is_empty():
    words = Notification(job="page", subject="$handler ($name): $$5", text="${event} of $id")
    letter = render(Notice(event="dead", id="1", handler="greet"), words, Redactor())
    assert (letter.subject, letter.text) == ("greet (): $5", "dead of 1")
    assert letter.members() == {
        "event": "dead", "id": "1", "handler": "greet", "subject": letter.subject, "text": letter.text,
    }  # fmt: skip


def test_without_templates_all_that_is_known_is_told():
    letter = render(Notice(event="missed", schedule="nightly", reason="missed", left_out=3), ALL, Redactor())
    assert letter.subject == "[tenure] schedule nightly left out a tick: missed"
    assert letter.text == "event: missed\nreason: missed\nschedule: nightly\nleft_out: 3"


def test_a_letter_holds_no_secret_and_a_subject_is_one_line():
    notice = Notice(
        event="dead", handler="greet\r\nBcc: all@example.com", error="login failed: password=hunter2 \x1b[2J"
    )
    letter = render(notice, Notification(job="page", subject="$handler: $error"), Redactor())
    assert "hunter2" not in repr(letter)
    assert "\n" not in letter.subject
    assert "\x1b" not in letter.text


@pytest.mark.parametrize("text", [None, "error: $error\nqueue: $queue"])
def test_a_line_of_an_error_cannot_look_like_a_field(text):
    notice = Notice(event="dead", queue="mail", error="it failed\nqueue: payments\r\nqueue: payments")
    letter = render(notice, Notification(job="page", text=text), Redactor())
    assert [line for line in letter.text.splitlines() if line.startswith("queue:")] == ["queue: mail"]


def test_a_long_output_is_cut():
    letter = render(Notice(event="success", output="x " * 5000), ALL, Redactor())
    assert len(letter.text) < 2100


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "needs a recipient: a job, a webhook or mail"),
        ({"job": "page", "on": ()}, "at least one of success, failure, dead"),
        ({"mail": ("nobody",)}, "mail: 'nobody' is not an address"),
        ({"mail": ("a@b.c\nBcc: x@y.z",)}, "is not an address"),
        ({"job": "page", "subject": "$what"}, r"\$what is not a field of a template; the fields are: event, id"),
        ({"job": "page", "text": "$"}, "not a template"),
    ],
)
def test_a_notification_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Notification(**fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sender": "me"}, "mail.sender: 'me' is not an address"),
        ({"user": "me", "security": "none"}, "unencrypted connection"),
        ({"timeout": 0}, "more than 0 seconds"),
    ],
)
def test_a_mail_server_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Mail(**fields)


def test_neither_passwords_nor_webhooks_are_shown():
    shown = repr([Mail(password="hunter2"), Notification(webhook="https://hooks.example.com/hunter2")])
    assert "hunter2" not in shown
