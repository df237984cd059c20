"""Items are made in the caller's thread while another thread sends the ones before; none is lost."""

import threading

import pytest

from tenure.app import producer
from tenure.app.producer import send_overlapped
from tests.support.waiting import WAIT_SECONDS


def shout(word):
    return word.upper()


def is_short(word):
    return len(word) < 3


def test_answers_come_with_their_items_in_order():
    words = ["one", "two", "three", "x"]
    assert list(send_overlapped(shout, words, is_short)) == [(word, word.upper()) for word in words]
    assert list(send_overlapped(shout, [], is_short)) == []


def test_the_next_is_made_here_while_one_is_sent_elsewhere():
    made = threading.Event()
    places = {}

    def words():
        yield "one"
        places["made"] = threading.current_thread()
        made.set()
        yield "two"

    def send(word):
        places["sent"] = threading.current_thread()
        assert made.wait(WAIT_SECONDS)
        return word

    assert [answer for _, answer in send_overlapped(send, words(), is_short)] == ["one", "two"]
    assert places["made"] is threading.current_thread() is not places["sent"]


def test_the_thread_may_begin_to_send_before_the_next_is_made(monkeypatch):
    monkeypatch.setattr(producer, "_SENDING_SECONDS", WAIT_SECONDS)
    is_next_made = threading.Event()

    def words():
        yield "one"
        is_next_made.set()
        yield "x"

    answers = list(send_overlapped(lambda _: is_next_made.wait(0.2), words(), is_short))

    assert answers == [("one", False), ("x", True)]


def test_what_looks_like_the_last_is_sent_from_here():
    assert list(send_overlapped(lambda _: threading.current_thread(), ["x"], is_short)) == [
        ("x", threading.current_thread())
    ]


def test_what_was_sent_is_answered_before_the_failure_of_making_the_next():
    def words():
        yield "one"
        raise ValueError("no more words")

    answers = []
    with pytest.raises(ValueError, match="no more words"):
        answers.extend(answer for _, answer in send_overlapped(shout, words(), is_short))
    assert answers == ["ONE"]


def test_a_failure_to_send_ends_it():
    def send(word):
        if word == "two":
            raise ValueError("not this one")
        return word

    answers = []
    with pytest.raises(ValueError, match="not this one"):
        answers.extend(answer for _, answer in send_overlapped(send, ["one", "two", "three"], is_short))
    assert answers == ["one"]
