"""The audit log: what users did is stored as it was saved, listed newest first, and deleted only by its age."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import structs

from tenure.backends.records import AuditRecord
from tenure.testing.conformance.capabilities import SHARED, needs
from tenure.testing.conformance.messages import FullBackend, id_of

START = 1_700_000_000_000_000
SECOND = 1_000_000
WAIT_TIMEOUT = 120.0
HOSTILE_TEXTS = {
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "emoji": "👩🏽‍💻 🏳️‍🌈 😀",
    "quotes": """'";--\\ \\' `x` $$ %s %(id)s :id ? {braces} [[""",
    "markup": "<script>alert(1)</script> &amp; ]]>",
    "separators": "a\u2028b\u2029c\r\nd\te\u202ef\ufeffg\uffff",
    "much": "ü" * 70_000,
}


def entry(number: int, **fields: Any) -> AuditRecord:
    """What a user did `number` seconds after START, unless `fields` say otherwise."""
    usual = AuditRecord(
        id=id_of(number), at=START + number * SECOND, actor="ada", action="queue.pause", target=f"queue {number}"
    )
    return structs.replace(usual, **fields)


def saved(backend: FullBackend, *numbers: int) -> None:
    for number in numbers:
        backend.audit.save(entry(number))


def walk(backend: FullBackend, limit: int) -> list[AuditRecord]:
    found = page = backend.audit.page(limit=limit)
    while len(page) == limit:
        page = backend.audit.page(limit=limit, before=page[-1].id)
        found = [*found, *page]
    return found


class AuditTests:
    @needs("audit")
    def test_an_audit_log_begins_empty(self, backend: FullBackend) -> None:
        assert (backend.audit.page(limit=9), backend.audit.find(id_of(1))) == ([], None)
        assert backend.audit.trim(START, 9) == 0

    @needs("audit")
    def test_an_audit_record_is_found_as_it_was_saved(self, backend: FullBackend) -> None:
        full = entry(
            1,
            action="jobs.cancel",
            why="a wrong import",
            origin="api",
            state="stopped",
            total=1 << 40,
            counts={"cancelled": 7, "too late": 0},
            ended_at=START + 9 * SECOND,
            error="stopped by ada",
        )
        backend.audit.save(full)
        saved(backend, 2)
        assert [backend.audit.find(id_of(number)) for number in (1, 2, 3)] == [full, entry(2), None]
        assert backend.audit.page(limit=9) == [entry(2), full]

    @needs("audit")
    def test_an_audit_record_replaces_the_one_with_its_id(self, backend: FullBackend) -> None:
        begun = entry(1, state="running", total=3, why="a wrong import")
        ended = structs.replace(begun, state="done", why=None, counts={"cancelled": 3}, ended_at=START + 5 * SECOND)
        for each in (begun, entry(2), ended):
            backend.audit.save(each)
        assert backend.audit.find(id_of(1)) == ended
        assert backend.audit.page(limit=9) == [entry(2), ended]

    @needs("audit")
    def test_an_audit_record_that_is_saved_again_unchanged_stays(self, backend: FullBackend) -> None:
        saved(backend, 1, 1)
        assert backend.audit.page(limit=9) == [entry(1)]

    @needs("audit")
    def test_audit_records_are_listed_with_the_newest_first(self, backend: FullBackend) -> None:
        saved(backend, 3, 1, 5, 2, 4)
        for limit in (1, 2, 5, 6):
            assert walk(backend, limit) == [entry(number) for number in (5, 4, 3, 2, 1)]

    @needs("audit")
    def test_a_page_of_the_audit_log_goes_on_though_its_last_record_is_gone(self, backend: FullBackend) -> None:
        saved(backend, 1, 2, 3, 4)
        backend.audit.save(entry(3, at=START - SECOND))
        assert backend.audit.trim(START, 9) == 1
        saved(backend, 5)
        assert backend.audit.page(limit=9, before=id_of(3)) == [entry(2), entry(1)]

    @needs("audit")
    def test_old_audit_records_are_deleted_in_chunks(self, backend: FullBackend) -> None:
        saved(backend, *range(1, 8))
        before = START + 6 * SECOND
        assert [backend.audit.trim(before, 3) for _ in range(3)] == [3, 2, 0]
        assert walk(backend, 9) == [entry(7), entry(6)]
        assert [backend.audit.find(id_of(number)) for number in (5, 6)] == [None, entry(6)]

    @needs("audit")
    def test_the_oldest_audit_records_are_deleted_first(self, backend: FullBackend) -> None:
        saved(backend, 3, 1, 2)
        assert backend.audit.trim(START + 9 * SECOND, 2) == 2
        assert walk(backend, 9) == [entry(3)]

    @needs("audit")
    @pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
    def test_an_audit_record_may_have_any_text(self, backend: FullBackend, text: str) -> None:
        hostile = entry(1, actor=text, action=text, target=text, why=text, counts={text: 1}, error=text)
        backend.audit.save(hostile)
        assert backend.audit.find(id_of(1)) == hostile
        assert backend.audit.page(limit=1) == [hostile]

    @needs("audit")
    def test_threads_that_save_one_audit_record_keep_one_of_their_versions(self, backend: FullBackend) -> None:
        def save(number: int) -> None:
            for total in range(20):
                backend.audit.save(entry(1, actor=f"user {number}", total=total))

        with ThreadPoolExecutor(4) as threads:
            for run in [threads.submit(save, number) for number in range(4)]:
                run.result(WAIT_TIMEOUT)
        (found,) = backend.audit.page(limit=9)
        assert (found.id, found.total) == (id_of(1), 19)

    @needs("audit", SHARED)
    def test_other_processes_see_the_audit_log_and_add_to_it(self, backend: FullBackend, url: str) -> None:
        backend.audit.save(entry(1, target="Grüße 👋"))
        command = [sys.executable, "-m", "tenure.testing.conformance.other_process", "audit", url, id_of(1), id_of(2)]
        subprocess.run(command, timeout=WAIT_TIMEOUT, check=True)
        copy = entry(1, id=id_of(2), target="Grüße 👋")
        assert backend.audit.page(limit=9) == [copy, entry(1, target="Grüße 👋")]
