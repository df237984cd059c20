"""The doctor page: findings that a thread reads for all viewers, and that no request waits for."""

import threading

import pytest

from tenure.app.dashboard import checks
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.background import Background
from tenure.app.dashboard.checks import DoctorQuery, warning_count
from tenure.errors import AccessDenied, BackendError

ADMIN = everything("ada")


def test_findings_are_shown_with_problems_first(shop, view, eventually):
    shop.enqueue(shop.define("send", {"user": 1}).build())
    dashboard = view()

    eventually(lambda: dashboard.read(DoctorQuery(), ADMIN).findings)

    model = dashboard.read(DoctorQuery(), ADMIN)
    verdicts = [each.verdict for each in model.findings]
    assert verdicts == sorted(verdicts, key=("problem", "warning", "ok", "not applicable").index)
    assert any(each.check == "workers" and "no worker listens on emails" in each.text for each in model.findings)
    assert warning_count(dashboard.sources) == model.counts.get("warning", 0) + model.counts.get("problem", 0) > 0


def test_nobody_waits_for_the_checks_and_they_run_once_at_a_time(view, monkeypatch, eventually):
    gate, runs = threading.Event(), []

    def slow(facts):
        runs.append(1)
        gate.wait(30)
        return []

    monkeypatch.setattr(checks, "examine", slow)
    monkeypatch.setattr(checks, "AGAIN_SECONDS", 0.0)
    dashboard = view()

    first = dashboard.read(DoctorQuery(), ADMIN)
    second = dashboard.read(DoctorQuery(again=True), ADMIN)
    assert (first.findings, first.is_running, second.is_running) == (None, True, True)
    assert warning_count(dashboard.sources) == 0

    gate.set()
    eventually(lambda: dashboard.read(DoctorQuery(), ADMIN).findings == ())
    assert len(runs) == 1


def test_the_checks_run_again_only_after_a_while(view, monkeypatch, eventually):
    runs = []
    monkeypatch.setattr(checks, "examine", lambda facts: runs.append(1) or [])
    dashboard = view()
    eventually(lambda: dashboard.read(DoctorQuery(), ADMIN).findings == ())

    dashboard.read(DoctorQuery(again=True), ADMIN)
    assert not dashboard.read(DoctorQuery(again=True), ADMIN).is_running

    monkeypatch.setattr(checks, "AGAIN_SECONDS", 0.0)
    eventually(lambda: dashboard.read(DoctorQuery(again=True), ADMIN) and len(runs) > 1)


def test_users_with_some_queues_do_not_see_the_checks(view):
    with pytest.raises(AccessDenied):
        view().read(DoctorQuery(), Access(user="max", role="admin", queues=("emails",)))


class TestBackground:
    def test_an_error_leaves_the_last_answer(self, eventually):
        background, answers = Background(), iter(["good"])

        def read():
            for answer in answers:
                return answer
            raise BackendError("down")

        assert eventually(lambda: background.get("name", read, 0.0).value) == "good"
        eventually(lambda: background.get("name", read, 0.0).error)

        found = background.get("name", read, 60.0)
        assert (found.value, found.error) == ("good", "down")
        background.close()

    def test_the_first_answer_is_awaited_for_a_moment_only(self):
        background, gate = Background(), threading.Event()

        waited = background.get("slow", lambda: gate.wait(30), 0.0, wait=0.01)
        quick = background.get("quick", lambda: "answer", 60.0, wait=30.0)

        assert (waited.value, waited.is_reading, quick.value) == (None, True, "answer")
        gate.set()
        background.close()

    def test_nothing_is_read_after_the_end(self):
        background = Background()
        background.close()

        assert background.get("name", lambda: "late", 0.0, wait=0.01).value is None
