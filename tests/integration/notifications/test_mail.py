"""Mail to a real server: TLS, login, deadline."""

import smtplib
import time

import pytest

from tenure.errors import NotDelivered, SettingsError
from tenure.notifications.mail import Mailer
from tenure.notifications.notice import Notice, RenderedNotice
from tenure.recipients import Mail

LETTER = RenderedNotice(Notice(event="dead"), "greet is dead", "It was called “Ada”.\n.\n..and so on")


def postman(box, **options):
    return Mailer(Mail(host="localhost", port=box.port, sender="tenure@example.com", **options))


def test_a_mail_arrives_as_it_was_written(mail_server):
    box = mail_server()
    postman(box, security="none").deliver(["ops@example.com", "boss@example.com"], LETTER)
    mail = box.mails.get(timeout=30)
    assert (mail["From"], mail["To"]) == ("tenure@example.com", "ops@example.com, boss@example.com")
    assert (mail["Subject"], mail["Auto-Submitted"]) == ("greet is dead", "auto-generated")
    assert mail["Message-ID"].endswith("@example.com>")
    assert mail.get_content().replace("\r\n", "\n").rstrip("\n") == LETTER.text
    assert [line.partition(":")[2].split()[0] for line in box.envelopes[0]] == [
        "<tenure@example.com>", "<ops@example.com>", "<boss@example.com>",
    ]  # fmt: skip


@pytest.mark.parametrize(("security", "at_once"), [("starttls", False), ("tls", True)])
def test_a_login_goes_over_tls_to_a_server_that_is_trusted(mail_server, certified, bundle, security, at_once):
    box = mail_server(certified, at_once=at_once, login="me:hunter2")
    man = postman(box, security=security, user="me", password="hunter2", certificates=bundle)
    man.deliver(["ops@example.com"], LETTER)
    assert box.mails.get(timeout=30)["Subject"] == LETTER.subject


@pytest.mark.parametrize(("security", "at_once"), [("starttls", False), ("tls", True)])
def test_a_server_that_is_not_trusted_gets_no_mail(mail_server, certified, security, at_once):
    box = mail_server(certified, at_once=at_once)
    with pytest.raises(NotDelivered, match="certificate verify failed"):
        postman(box, security=security).deliver(["ops@example.com"], LETTER)
    assert box.mails.empty()


def test_a_server_without_tls_gets_no_mail_unless_told_so(mail_server):
    box = mail_server()
    with pytest.raises(NotDelivered, match="STARTTLS"):
        postman(box).deliver(["ops@example.com"], LETTER)
    assert box.mails.empty()


def test_a_wrong_password_is_told_without_it(mail_server, certified, bundle):
    box = mail_server(certified, login="me:hunter2")
    with pytest.raises(NotDelivered, match="535") as caught:
        postman(box, user="me", password="tiger", certificates=bundle).deliver(["ops@example.com"], LETTER)
    assert "tiger" not in str(caught.value)


def test_a_recipient_that_is_refused_is_told(mail_server):
    box = mail_server()
    box.refusal = b"550 nobody here"
    with pytest.raises(NotDelivered, match="nobody here"):
        postman(box, security="none").deliver(["ops@example.com"], LETTER)


def test_a_server_that_falls_silent_is_left_at_the_deadline(mail_server):
    box = mail_server()
    box.is_mute = True
    begun = time.monotonic()
    with pytest.raises(NotDelivered, match=r"longer than 0\.5 s|timed out"):
        postman(box, security="none", timeout=0.5).deliver(["ops@example.com"], LETTER)
    assert time.monotonic() - begun >= 0.4


def test_a_server_that_drips_is_cut_off_at_the_deadline(mail_server):
    box = mail_server()
    box.drips = True
    with pytest.raises(NotDelivered, match=r"longer than 0\.5 s|timed out"):
        postman(box, security="none", timeout=0.5).deliver(["ops@example.com"], LETTER)


def test_the_deadline_holds_although_it_passes_before_there_is_a_connection(mail_server, monkeypatch):
    box = mail_server()
    box.drips = True
    connect = smtplib.SMTP._get_socket

    def connect_late(*given):
        time.sleep(0.3)  # longer than the mail may take
        return connect(*given)

    monkeypatch.setattr(smtplib.SMTP, "_get_socket", connect_late)
    with pytest.raises(NotDelivered, match=r"longer than 0\.1 s|timed out"):
        postman(box, security="none", timeout=0.1).deliver(["ops@example.com"], LETTER)


def test_nobody_there_is_told():
    man = Mailer(Mail(host="localhost", port=1, sender="a@example.com", timeout=5))
    with pytest.raises(NotDelivered, match="localhost:1 did not accept the mail"):
        man.deliver(["ops@example.com"], LETTER)


@pytest.mark.parametrize("mail", [Mail(), Mail(host="localhost"), Mail(sender="a@example.com")])
def test_mail_needs_a_server_and_a_sender(mail):
    with pytest.raises(SettingsError, match=r"mail\.host and mail\.sender"):
        Mailer(mail).check()
