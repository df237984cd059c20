"""Each check of the doctor, from facts alone, and the measurement of clocks."""

from types import SimpleNamespace

import pytest
from msgspec import structs

from tenure import Tenure
from tenure.app.doctor import collect
from tenure.app.doctor.checks import CHECKS, examine
from tenure.app.doctor.facts import (
    Deaths,
    DoctorFacts,
    Keys,
    OutboxFacts,
    Sample,
    ScheduleFacts,
    Timing,
    UnrunnableJob,
)
from tenure.backends.records import Fact, PayloadSize

TIMING = Timing(lease=15.0, stop_grace=30.0)
BARE = DoctorFacts(place="somewhere", timing=TIMING)
NOW = 1_000_000_000
KEYS = Keys(ring=("new", "old"), sealed={"new": 5})
LOST = Fact("durability", "jobs are lost when the server restarts", warning=True)
EVICTS = Fact("memory", "jobs may be DELETED", warning=True)
DEAF = Fact("wake-ups", "LISTEN receives no NOTIFY", warning=True)
LATE, KEPT, NEW = ScheduleFacts("late", NOW, NOW - 1), ScheduleFacts("kept", NOW, NOW), ScheduleFacts("new", NOW, None)


def timing(**fields: object) -> dict:
    return {"timing": structs.replace(TIMING, **fields)}


@pytest.mark.parametrize(
    ("check", "given", "verdict", "words"),
    [
        ("backend", {}, "ok", "somewhere answers"),
        ("backend", {"is_overridden": True}, "warning", "TENURE_URL_OVERRIDE replaces the URL of the app"),
        ("schema", {}, "not applicable", ""),
        ("schema", {"schema": (4, 4)}, "ok", "version 4"),
        ("schema", {"schema": (4, 4), "steps_taken": ("0004_history.sql",)}, "ok", "just migrated: 0004_history.sql"),
        ("schema", {"schema": (3, 4)}, "problem", "has version 3, and this release needs 4"),
        ("indexes", {}, "not applicable", ""),
        ("indexes", {"missing_indexes": ()}, "ok", "all exist"),
        ("indexes", {"missing_indexes": ("tenure_dead_died",)}, "problem", "tenure_dead_died"),
        ("durability", {}, "not applicable", ""),
        ("durability", {"server": (Fact("durability", "on disk"),)}, "ok", "on disk"),
        ("durability", {"server": (LOST,)}, "problem", "jobs are lost"),
        ("durability", {"server": (LOST,), "environment": "development"}, "warning", "jobs are lost"),
        ("eviction", {"server": (LOST,)}, "not applicable", ""),
        ("eviction", {"server": (EVICTS,)}, "problem", "DELETED"),
        ("wake-ups", {"server": (Fact("wake-ups", "by LISTEN"),)}, "ok", "by LISTEN"),
        ("wake-ups", {"server": (DEAF,)}, "warning", "receives no NOTIFY"),
        ("sqlite", {}, "not applicable", ""),
        ("sqlite", {"sqlite": (3, 51, 3)}, "ok", "SQLite 3.51.3"),
        ("sqlite", {"sqlite": (3, 51, 2)}, "warning", "SQLite 3.51.2 can damage"),
        ("clock", {}, "not applicable", ""),
        ("clock", {"skew": -0.9}, "ok", "within 1 s"),
        ("clock", {"skew": -1.5}, "warning", "is 1.5 s behind this host's"),
        ("clock", {"skew": 31.0}, "problem", "is 31.0 s ahead of this host's"),
        ("clock", {"skew": 0.0, "ahead": {"a": -4.0, "b": 0.5}}, "ok", "within 1 s"),
        ("clock", {"skew": 0.0, "ahead": {"a": -4.0, "b": 2.5}}, "warning", "server's: b by 2.5 s"),
        ("stopping", {}, "ok", "must allow workers 45 s"),
        ("stopping", timing(lease=4.0), "warning", "a lease of 4 s leaves little time"),
        ("stopping", timing(runs={"a": 29.0}), "ok", "30 s to stop"),
        ("stopping", timing(runs={"a": 29.0, "b": 31.0, "c": 90.0}), "warning", "restarts them: c (90 s), b (31 s)"),
        ("stopping", timing(default_timeout=31.0), "warning", "may run for 31 s"),
        ("stopping", timing(default_timeout=30.0), "ok", "30 s to stop"),
        ("keys", {}, "not applicable", ""),
        ("keys", {"keys": Keys(ring=("new",))}, "not applicable", "cannot list"),
        ("keys", {"keys": KEYS}, "ok", "sealed with 'new'"),
        ("keys", {"keys": structs.replace(KEYS, sealed={})}, "ok", "sealed with 'new'"),
        ("keys", {"keys": structs.replace(KEYS, verify=False)}, "problem", "not checked"),
        ("keys", {"keys": structs.replace(KEYS, ring=("development",))}, "warning", "publicly known key"),
        ("keys", {"keys": structs.replace(KEYS, sealed={"new": 5, "": 2})}, "problem", "2 messages wait without"),
        ("keys", {"keys": structs.replace(KEYS, sealed={"gone": 3})}, "problem", "not in the ring: 3 by 'gone'"),
        ("keys", {"keys": structs.replace(KEYS, sealed={"old": 3})}, "warning", "no longer sign: 3 by 'old'"),
        ("keys", {"keys": structs.replace(KEYS, sealed={"old": 3}, whole=False)}, "warning", "of the first 3 messages"),
        ("key file", {}, "not applicable", "in the settings"),
        ("key file", {"key_file": "/srv/jobs.db.key"}, "ok", "read or replace '/srv/jobs.db.key'"),
        ("key file", {"key_file_fault": "every user can write"}, "problem", "every user can write"),
        ("payloads", {}, "not applicable", "--app"),
        ("payloads", {"sample": Sample(7)}, "ok", "all of the 7"),
        ("payloads", {"sample": Sample(7, (UnrunnableJob("id", "greet", "newer_payload"),))}, "problem",
         "cannot run 1 of 'greet' (newer_payload)"),
        ("workers", {}, "not applicable", ""),
        ("workers", {"unserved": {}}, "ok", ""),
        ("workers", {"unserved": {"mail": 3}}, "warning", "no worker listens on mail (3 ready)"),
        ("workers", {"unserved": {"b": 1}, "undeployed": {"greet": 2}}, "problem", "queue has: greet (2 waiting)"),
        ("schedules", {}, "not applicable", ""),
        ("schedules", {"schedules": (KEPT,)}, "ok", ""),
        ("schedules", {"schedules": (KEPT, NEW)}, "ok", ""),
        ("schedules", {"schedules": (LATE, NEW)}, "problem", "no scheduler runs: the last ticks of late, new"),
        ("schedules", {"schedules": (NEW,)}, "problem", "no scheduler runs"),
        ("schedules", {"schedules": (LATE, KEPT)}, "warning", "the last ticks of late"),
        ("schedules", {"schedules": (ScheduleFacts("yearly", None, None),)}, "ok", ""),
        ("outboxes", {}, "not applicable", ""),
        ("outboxes", {"outboxes": (OutboxFacts(name="shop", jobs=3, untried_age=5.0),)}, "ok", "3 jobs wait"),
        ("outboxes", {"outboxes": (OutboxFacts(name="shop", jobs=3, untried_age=61.0),)}, "warning", "no relay"),
        ("outboxes", {"outboxes": (OutboxFacts(name="shop", jobs=3, refused=3),)}, "warning", "refused jobs of shop"),
        ("outboxes", {"outboxes": (OutboxFacts(name="shop", failure="no table"),)}, "problem", "no table"),
        ("old payloads", {}, "not applicable", ""),
        (
            "old payloads",
            {"kept_payloads": PayloadSize(3, 15_000_000), "payload_bytes": 10_000_000},
            "ok",
            "3 ended jobs have their payloads, 15.0 MB; retention.payload_bytes allows 10.0 MB",
        ),
        ("old payloads", {"kept_payloads": PayloadSize(3, 15_000_001), "payload_bytes": 10_000_000}, "warning", ""),
        ("dead letters", {}, "not applicable", ""),
        ("dead letters", {"deaths": Deaths(letters=3, hour=9, day=9)}, "ok", "3 dead letters; 9 died in the last hour"),
        ("dead letters", {"deaths": Deaths(hour=10, day=80)}, "ok", ""),
        ("dead letters", {"deaths": Deaths(hour=10, day=79)}, "warning", "their number grows: 10 died in the"),
    ],
)  # fmt: skip
def test_a_check_finds_what_the_facts_say(check, given, verdict, words):
    found = {each.check: each for each in examine(structs.replace(BARE, **given))}[check]
    assert (found.verdict, words in found.text) == (verdict, True), found
    assert (found.advice is None) == (verdict in ("ok", "not applicable"))


def test_every_check_has_a_name_of_its_own_and_the_backend_comes_first():
    names = [each.check for each in examine(BARE)]
    assert names[0] == "backend"
    assert len(set(names)) == len(CHECKS) + 1


def test_of_a_backend_that_cannot_be_opened_nothing_else_is_said():
    (found,) = examine(structs.replace(BARE, failure="connection refused"))
    assert (found.check, found.verdict, found.text) == ("backend", "problem", "connection refused")


def test_long_lists_are_cut():
    findings = examine(structs.replace(BARE, unserved={f"q{n}": 1 for n in range(9)}))
    (found,) = [each for each in findings if each.check == "workers"]
    assert found.text.endswith("q4 (1 ready) and 4 more")


def test_a_slow_answer_is_not_taken_for_a_wrong_clock(monkeypatch):
    """The server read its clock at the begin of an answer that took six seconds; the next answers take no time."""
    times = iter([0.0, 6.0, 6.0, 6.0, 6.0, 6.0])
    with Tenure("memory://") as app:
        server = iter([0, 6_000_000, 6_000_000, 6_000_000])
        monkeypatch.setattr(app.parts().ledger, "time", lambda: next(server))
        monkeypatch.setattr(collect, "time", SimpleNamespace(time=lambda: next(times)))
        facts = collect.collect_facts(app, has_handlers=True)
    assert facts.skew == 0.0
