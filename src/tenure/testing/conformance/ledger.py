"""LedgerConformance: the tests that every ledger of schedules must pass."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tenure.backends.ledger import ALL_SCHEDULES, ENDED_TICKS, OPEN_TICKS, TICK_STATES, Note, TickRecord, may_come_from
from tenure.testing.conformance.capabilities import SHARED, needs, skip_unless_able, skipped_tests
from tenure.testing.conformance.messages import QUEUE, AdvancingClock, FullBackend, id_of, make, numbers, take

MINUTE = 60_000_000
FIRST = 29_000_000 * MINUTE
BOOKING = "Booking"
WAIT_TIMEOUT = 120.0
EVER = 1 << 62


def entry(number: int, schedule: str = "report", **fields: Any) -> TickRecord:
    """The tick of a minute, in the state `intended` unless `fields` say otherwise."""
    moment = FIRST + number * MINUTE
    return replace(TickRecord(id=id_of(number), schedule=schedule, tick=moment, due=moment, state="intended"), **fields)


def states(ticks: Sequence[TickRecord]) -> dict[str, str]:
    return {tick.id: tick.state for tick in ticks}


class LedgerConformance:
    """Subclass it, give it the fixtures `backend` and `clock`, and `url` where other processes can open it."""

    capabilities: ClassVar[frozenset[str]] = frozenset()
    expected_skips: ClassVar[int]

    @pytest.fixture(autouse=True)
    def _skip_unless_able(self, request: pytest.FixtureRequest) -> None:
        skip_unless_able(request.function, self.capabilities)

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("a ledger that is Shared needs a fixture `url`")

    def test_no_skip_creeps_in(self) -> None:
        assert len(skipped_tests(type(self), self.capabilities)) == self.expected_skips

    def test_it_has_a_ledger_of_the_kind_it_declares(self, backend: FullBackend) -> None:
        assert (backend.ledger.booking is not None) == (BOOKING in self.capabilities)

    def test_a_tick_is_entered_once(self, backend: FullBackend) -> None:
        assert backend.ledger.enter([entry(1), entry(2)]) == {id_of(1), id_of(2)}
        assert backend.ledger.enter([entry(2, state="skipped"), entry(3)]) == {id_of(3)}
        assert states(list(backend.ledger.known([id_of(2)]).values())) == {id_of(2): "intended"}

    def test_what_was_entered_is_known_as_it_was(self, backend: FullBackend, clock: AdvancingClock) -> None:
        before = backend.ledger.time()
        given = entry(1, "naïve ☃ 'report'", state="skipped", why='paused\nfor a "while"', due=FIRST + 7)
        backend.ledger.enter([given])
        clock.advance(0.1)
        found = backend.ledger.known([id_of(1), id_of(2)])
        assert list(found) == [id_of(1)]
        assert replace(found[id_of(1)], entered_at=0, noted_at=0) == given
        assert before <= found[id_of(1)].entered_at == found[id_of(1)].noted_at < backend.ledger.time()

    def test_a_batch_may_be_large_and_empty(self, backend: FullBackend) -> None:
        ticks = [entry(number, f"schedule {number % 300}") for number in range(1100)]
        assert backend.ledger.enter([]) == set()
        assert len(backend.ledger.enter(ticks)) == 1100
        assert backend.ledger.enter(ticks) == set()
        assert len(backend.ledger.known([tick.id for tick in ticks])) == 1100
        assert len(backend.ledger.last_ticks()) == 300
        assert backend.ledger.note([]) == []
        assert backend.ledger.known([]) == {}

    def test_the_latest_tick_of_each_schedule_is_remembered(self, backend: FullBackend) -> None:
        backend.ledger.enter([entry(3), entry(1, "clean")])
        backend.ledger.enter([entry(2), entry(4, "clean"), entry(5, "clean")])
        assert backend.ledger.last_ticks() == {"report": FIRST + 3 * MINUTE, "clean": FIRST + 5 * MINUTE}

    def test_a_tick_that_was_run_by_hand_is_recorded_and_is_not_the_latest(self, backend: FullBackend) -> None:
        by_hand = FIRST + 2 * MINUTE + 1
        backend.ledger.enter([entry(1), entry(2, tick=by_hand), entry(3, "clean", tick=by_hand)])
        assert backend.ledger.last_ticks() == {"report": FIRST + MINUTE}
        assert [tick.tick for tick in backend.ledger.history("report")] == [by_hand, FIRST + MINUTE]
        assert [tick.tick for tick in backend.ledger.history("clean")] == [by_hand]

    def test_a_tick_of_the_future_is_not_the_latest_until_its_time_has_come(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        soon = backend.ledger.time() // 1_000_000 * 1_000_000 + 2_000_000
        backend.ledger.enter([entry(1), entry(2), entry(3, tick=soon), entry(4, "clean", tick=soon + 86_400_000_000)])
        assert backend.ledger.last_ticks() == {"report": FIRST + 2 * MINUTE}
        clock.advance(2.1)
        assert backend.ledger.last_ticks() == {"report": soon}

    def test_notes_tell_what_has_changed(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.ledger.enter([entry(1), entry(2), entry(3)])
        clock.advance(0.1)
        changed = backend.ledger.note(
            [Note(id_of(1), "enqueued"), Note(id_of(2), "failed", "it broke"), Note(id_of(9), "succeeded")]
        )
        assert states(changed) == {id_of(1): "enqueued", id_of(2): "failed"}
        (failed,) = [tick for tick in changed if tick.state == "failed"]
        assert failed.why == "it broke"
        assert failed.noted_at > failed.entered_at
        assert backend.ledger.known([id_of(2)]) == {id_of(2): failed}

    @pytest.mark.parametrize("before", TICK_STATES)
    def test_a_note_is_taken_only_after_what_it_may_follow(self, backend: FullBackend, before: Any) -> None:
        backend.ledger.enter([entry(number, state=before) for number in range(len(TICK_STATES))])
        changed = backend.ledger.note([Note(id_of(number), state) for number, state in enumerate(TICK_STATES)])
        assert {tick.state for tick in changed} == {state for state in TICK_STATES if before in may_come_from(state)}

    def test_a_late_word_that_a_job_was_enqueued_does_not_undo_its_success(self, backend: FullBackend) -> None:
        backend.ledger.enter([entry(1)])
        backend.ledger.note([Note(id_of(1), "succeeded")])
        assert backend.ledger.note([Note(id_of(1), "enqueued")]) == []
        assert backend.ledger.note([Note(id_of(1), "succeeded")]) == []

    def test_histories_are_the_newest_ticks_of_several_schedules(self, backend: FullBackend) -> None:
        names = [f"schedule {number}" for number in range(120)]
        ticks = [entry(4 * place + number, name) for place, name in enumerate(names) for number in range(4)]
        backend.ledger.enter(ticks)
        found = backend.ledger.histories([*names, "unknown", 'it\'s "quoted"'], limit=3)
        assert list(found) == [*names, "unknown", 'it\'s "quoted"']
        assert found == {name: backend.ledger.history(name, limit=3) for name in found}
        assert [tick.id for tick in found["schedule 7"]] == [id_of(31), id_of(30), id_of(29)]
        assert backend.ledger.histories([]) == {}

    def test_history_is_of_one_schedule_and_the_newest_first(self, backend: FullBackend) -> None:
        backend.ledger.enter([entry(number, state="skipped" if number % 2 else "enqueued") for number in range(5)])
        backend.ledger.enter([entry(9, "clean")])
        assert [tick.id for tick in backend.ledger.history("report", limit=3)] == [id_of(4), id_of(3), id_of(2)]
        assert [tick.id for tick in backend.ledger.history("report", states=["skipped"])] == [id_of(3), id_of(1)]
        assert backend.ledger.history("nothing") == []

    def test_what_has_not_ended_is_found_the_longest_unchanged_first(
        self, backend: FullBackend, clock: AdvancingClock
    ) -> None:
        for number, state in enumerate(TICK_STATES):
            backend.ledger.enter([entry(number, state=state)])
            clock.advance(0.1)
        middle = backend.ledger.known([id_of(2)])[id_of(2)].noted_at
        assert [tick.state for tick in backend.ledger.unended(OPEN_TICKS, before=EVER, limit=9)] == list(OPEN_TICKS)
        assert [tick.state for tick in backend.ledger.unended(OPEN_TICKS, before=middle, limit=9)] == list(
            OPEN_TICKS[:2]
        )
        assert [tick.state for tick in backend.ledger.unended(["waiting", "running"], before=EVER, limit=1)] == [
            OPEN_TICKS[1]
        ]
        backend.ledger.note([Note(id_of(0), "succeeded")])
        assert [tick.state for tick in backend.ledger.unended(OPEN_TICKS, before=EVER, limit=9)] == list(OPEN_TICKS[1:])

    def test_schedules_are_paused_one_by_one_or_all(self, backend: FullBackend, clock: AdvancingClock) -> None:
        assert backend.ledger.paused() == {}
        backend.ledger.pause("report")
        since = backend.ledger.paused()["report"]
        clock.advance(0.1)
        backend.ledger.pause("report")
        backend.ledger.pause(ALL_SCHEDULES)
        assert backend.ledger.paused()["report"] == since
        assert set(backend.ledger.paused()) == {"report", ALL_SCHEDULES}
        backend.ledger.resume("report")
        backend.ledger.resume("report")
        assert set(backend.ledger.paused()) == {ALL_SCHEDULES}
        assert backend.ledger.last_ticks() == {}

    def test_a_paused_schedule_still_comes_on(self, backend: FullBackend) -> None:
        backend.ledger.pause("report")
        backend.ledger.enter([entry(1)])
        assert backend.ledger.last_ticks() == {"report": FIRST + MINUTE}
        assert set(backend.ledger.paused()) == {"report"}

    def test_what_has_ended_is_forgotten_by_age(self, backend: FullBackend, clock: AdvancingClock) -> None:
        backend.ledger.enter([entry(number, state=state) for number, state in enumerate(TICK_STATES)])
        clock.advance(0.1)
        later = backend.ledger.time()
        clock.advance(0.1)
        backend.ledger.enter([entry(20, state="succeeded")])
        assert backend.ledger.forget(later, 100, 2) == 2
        assert backend.ledger.forget(later, 100, 100) == len(ENDED_TICKS) - 2
        left = backend.ledger.history("report", limit=100)
        assert [tick.state for tick in left] == ["succeeded", *reversed(OPEN_TICKS)]
        assert backend.ledger.last_ticks() == {"report": FIRST + 20 * MINUTE}

    def test_what_has_ended_is_forgotten_by_count(self, backend: FullBackend) -> None:
        backend.ledger.enter([entry(number, state="succeeded") for number in range(10)])
        backend.ledger.enter([entry(number, "clean", state="succeeded") for number in range(10, 13)])
        assert backend.ledger.forget(0, 4, 3) == 3
        assert backend.ledger.forget(0, 4, 100) == 3
        assert backend.ledger.forget(0, 4, 100) == 0
        assert [tick.id for tick in backend.ledger.history("report", limit=100)] == [id_of(n) for n in (9, 8, 7, 6)]
        assert len(backend.ledger.history("clean", limit=100)) == 3
        assert backend.ledger.last_ticks()["report"] == FIRST + 9 * MINUTE

    @needs(BOOKING)
    def test_a_booked_tick_is_put_with_its_message(self, backend: FullBackend) -> None:
        ledger = backend.ledger
        booking = ledger.booking
        assert booking is not None
        ledger.enter([entry(1, state="skipped")])
        ticks = [entry(1, state="enqueued"), entry(2, state="enqueued"), entry(3, state="waiting")]
        assert booking.book(ticks, [make(1), make(2)]) == {id_of(2), id_of(3)}
        assert booking.book(ticks, [make(1), make(2)]) == set()
        assert numbers(take(backend, 9)) == [2]
        assert states(ledger.history("report")) == {id_of(3): "waiting", id_of(2): "enqueued", id_of(1): "skipped"}

    @needs(BOOKING)
    def test_a_waiting_tick_is_promoted_with_its_message_once(self, backend: FullBackend) -> None:
        ledger = backend.ledger
        booking = ledger.booking
        assert booking is not None
        ledger.enter([entry(1, state="waiting"), entry(2, state="succeeded"), entry(3, state="intended")])
        messages = [make(number) for number in range(5)]
        assert booking.promote(messages) == {id_of(1), id_of(3)}
        assert booking.promote(messages) == set()
        assert booking.promote([]) == set()
        assert numbers(take(backend, 9)) == [1, 3]
        assert states(ledger.history("report")) == {id_of(3): "enqueued", id_of(2): "succeeded", id_of(1): "enqueued"}

    @needs(BOOKING)
    def test_a_booking_happens_whole_or_not_at_all(self, backend: FullBackend) -> None:
        ledger = backend.ledger
        booking = ledger.booking
        assert booking is not None
        unstorable: Any = make(1, priority=None)
        with pytest.raises(TypeError):
            booking.book([entry(1, state="enqueued"), entry(2, state="enqueued")], [unstorable, make(2)])
        assert ledger.known([id_of(1), id_of(2)]) == {}
        assert ledger.last_ticks() == {}
        assert take(backend, 9) == []

    def test_many_threads_enter_each_tick_once(self, backend: FullBackend) -> None:
        def enter(turn: int) -> list[str]:
            won: list[str] = []
            for minute in range(20):
                order = range(5) if turn % 2 else range(4, -1, -1)
                won += backend.ledger.enter([entry(minute * 5 + n, f"s{n}", state="enqueued") for n in order])
            return won

        with ThreadPoolExecutor(4) as threads:
            runs = [threads.submit(enter, turn) for turn in range(4)]
            won = Counter(id for run in runs for id in run.result(WAIT_TIMEOUT))
        assert won == {id_of(number): 1 for number in range(100)}

    @needs(SHARED)
    def test_processes_enter_each_tick_once(self, backend: FullBackend, url: str) -> None:
        command = [sys.executable, "-m", "tenure.testing.conformance.other_scheduler", url, QUEUE]
        racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        won = Counter(line for racer in racers for line in racer.communicate(timeout=WAIT_TIMEOUT)[0].splitlines())
        assert [racer.returncode for racer in racers] == [0] * 3
        assert won == {id_of(number): 1 for number in range(50)}
        assert sorted(numbers(take(backend, 100))) == list(range(50))
