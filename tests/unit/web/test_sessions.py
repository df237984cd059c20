"""Signed texts and sessions: forged, old and ended ones are not accepted."""

import msgspec
import pytest

from tenure.errors import BackendUnavailable
from tenure.web.sessions import Session, Sessions
from tenure.web.signing import Signer

PASSWORDS = {"ops": b"hash of ops", "eve": b"hash of eve"}


class Processes:
    """Sessions of several processes that share a secret and an audit log, with a clock of their own."""

    def __init__(self):
        self.now = 1000.0
        self.passwords = dict(PASSWORDS)
        self.ended = set()
        self.asked = 0
        self.is_down = False

    def sessions(self, secret=b"s" * 32):
        return Sessions(Signer(lambda: secret), self.passwords.get, self.has_ended, lambda: self.now)

    def has_ended(self, id):
        self.asked += 1
        if self.is_down:
            raise BackendUnavailable("no answer")
        return id in self.ended


@pytest.fixture
def processes():
    return Processes()


def test_a_signed_text_is_opened_for_its_purpose_and_binding_only():
    signer = Signer(lambda: b"s" * 32)
    text = signer.sign("flash", b"data", b"ops")
    assert signer.opened("flash", text, b"ops") == b"data"
    assert signer.opened("session", text, b"ops") is None
    assert signer.opened("flash", text, b"eve") is None
    assert Signer(lambda: b"t" * 32).opened("flash", text, b"ops") is None


@pytest.mark.parametrize("text", ["", ".", "a.b", "!!.!!", "YQ", "YQ.", "é.é"])
def test_a_text_that_was_not_signed_is_not_opened(text):
    assert Signer(lambda: b"s" * 32).opened("flash", text) is None


def test_parts_of_a_signed_text_cannot_be_moved_between_purpose_binding_and_data():
    signer = Signer(lambda: b"s" * 32)
    one, other = signer.sign("a", b"c", b"b"), signer.sign("ab", b"c", b"")
    assert one.partition(".")[2] != other.partition(".")[2]


def test_a_session_is_known_until_it_ends(processes):
    sessions = processes.sessions()
    session, token = sessions.begin("ops", 60)
    assert processes.sessions().find(token) == session
    processes.now += 60
    assert sessions.find(token) is None


def test_a_session_cannot_be_changed_to_another_user_or_end(processes):
    sessions = processes.sessions()
    session, token = sessions.begin("ops", 60)
    signature = token.partition(".")[2]
    for forged in (Session("eve", session.id, session.until), Session("ops", session.id, session.until + 1)):
        body = Signer(lambda: b"x" * 32).sign("session", msgspec.json.encode(forged))
        assert sessions.find(f"{body.partition('.')[0]}.{signature}") is None


def test_a_new_password_ends_the_sessions_of_the_user(processes):
    sessions = processes.sessions()
    _, token = sessions.begin("ops", 60)
    processes.passwords["ops"] = b"another hash"
    assert sessions.find(token) is None
    del processes.passwords["ops"]
    assert sessions.find(token) is None


def test_a_session_that_was_signed_out_ends_here_at_once_and_elsewhere_within_seconds(processes):
    here, elsewhere = processes.sessions(), processes.sessions()
    session, token = here.begin("ops", 600)
    assert here.find(token)
    assert elsewhere.find(token)
    here.end(session)
    processes.ended.add(session.id)
    assert here.find(token) is None
    processes.now += 5
    assert elsewhere.find(token) is None
    processes.ended.clear()
    assert elsewhere.find(token) is None, "an ended session never comes back"


def test_the_audit_log_is_not_asked_for_every_request(processes):
    sessions = processes.sessions()
    _, token = sessions.begin("ops", 600)
    assert [bool(sessions.find(token)) for _ in range(10)] == [True] * 10
    assert processes.asked == 1


@pytest.mark.parametrize("token", ["", "x" * 5000, "e30.x", "bnVsbA.x", "eyJ1c2VyIjoib3BzIn0.x"])
def test_what_is_no_session_is_not_accepted(processes, token):
    assert processes.sessions().find(token) is None


def test_while_the_backend_is_down_only_sessions_that_were_known_before_go_on(processes):
    here, elsewhere = processes.sessions(), processes.sessions()
    _, token = here.begin("ops", 600)
    assert here.find(token)
    processes.is_down = True
    processes.now += 5
    assert here.find(token)
    with pytest.raises(BackendUnavailable):
        elsewhere.find(token)
