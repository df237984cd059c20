"""A page of dead letters is read with several statements, and letters may leave between two of them."""

import pytest

from tenure.backends.job_filter import JobFilter, search_dead_letters
from tenure.backends.messages import Message
from tenure.backends.records import NewDeadLetter
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.definition.failure import Failure


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def backend(request, tmp_path):
    file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/jobs.db" if file else request.getfixturevalue(f"{request.param}_url")
    backend = open_backend(url, SystemClock())
    yield backend
    backend.close()


@pytest.mark.parametrize("leave", ["discard", "replay"])
def test_a_search_for_dead_letters_finds_all_that_stay_while_others_leave(backend, monkeypatch, leave):
    letters = backend.dead_letters
    messages = [Message(id=f"dead-{n}", queue="mail", body=b"{}", handler="greet") for n in range(6)]
    letters.add([NewDeadLetter(message=message, reason="failed") for message in messages])
    read, leaving = letters._dialect.read, ["dead-1", "dead-0"]

    def read_and_lose_a_letter(statement, given):
        found = read(statement, given)
        if leaving:
            getattr(letters, leave)([leaving.pop()])
        return found

    monkeypatch.setattr(letters._dialect, "read", read_and_lose_a_letter)
    pages = search_dead_letters(letters, JobFilter(), page_size=2)
    assert [letter.id for page in pages for letter in page][-4:] == ["dead-2", "dead-3", "dead-4", "dead-5"]


def test_a_letter_that_was_added_with_a_failure_has_it_in_every_list(backend):
    failure = Failure(type="KeyError", message="'vat_id'", at=1, attempt=1)
    message = Message(id="dead-1", queue="mail", body=b"{}", handler="greet")
    backend.dead_letters.add([NewDeadLetter(message=message, reason="by hand", failure=failure)])
    (listed,), _ = backend.jobs.page("dead", "mail", limit=10)
    (letter,) = backend.dead_letters.page()
    assert listed.failures == letter.failures == (failure,)
