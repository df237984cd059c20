"""StoreConformance: the tests that every store of guards must pass."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending, forget_keys, settle_guards, take_guards
from tenure.guards.idempotency import Idempotency
from tenure.guards.states import Holder
from tenure.guards.store import Change, Decision, KeyUpdate, Store
from tenure.testing.conformance.capabilities import SHARED, needs, skip_unless_able, skipped_tests
from tenure.testing.conformance.messages import AdvancingClock

SOON = 1.0  # short, because the clock of a server can only be advanced by waiting
WAIT_TIMEOUT = 120.0


def setting(key: str, text: str, seconds: float = 60.0) -> Change:
    """Set a text for some seconds; the answer is the previous text."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        state = states[0]
        step = KeyUpdate(b'"%s"' % text.encode(), now + round(seconds * 1_000_000))
        return Decision(None if state is None else state.decode().strip('"'), [step])

    return Change((key,), decide)


def looking(*keys: str) -> Change:
    """Change nothing; the answer is the present texts."""
    return Change(keys, lambda states, _now: Decision([state and state.decode().strip('"') for state in states]))


def counting(key: str) -> Change:
    """Add one; the answer is the sum."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        count = int(states[0] or b"0") + 1
        return Decision(count, [KeyUpdate(b"%d" % count, now + 60_000_000)])

    return Change((key,), decide)


class StoreConformance:
    """Subclass it, give it the fixtures `store` and `clock`, and `url` where other processes can open the store."""

    capabilities: ClassVar[frozenset[str]] = frozenset()
    expected_skips: ClassVar[int]

    @pytest.fixture(autouse=True)
    def _skip_unless_able(self, request: pytest.FixtureRequest) -> None:
        skip_unless_able(request.function, self.capabilities)

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("a store that is Shared needs a fixture `url`")

    def test_no_skip_creeps_in(self) -> None:
        assert len(skipped_tests(type(self), self.capabilities)) == self.expected_skips

    def test_what_is_set_is_there(self, store: Store) -> None:
        assert store.change([setting("a", "x")]) == [None]
        assert store.change([setting("a", "y"), looking("a", "b")]) == ["x", ["y", None]]
        assert store.read(["a", "b"])[1] == {"a": b'"y"'}

    def test_a_step_without_a_state_forgets(self, store: Store) -> None:
        store.change([setting("a", "x"), setting("b", "z")])
        assert store.change([forget_keys("a", "c")]) == [1]
        assert store.read(["a", "b"])[1] == {"b": b'"z"'}

    def test_a_change_of_several_keys_happens_whole(self, store: Store) -> None:
        def swap(states: Sequence[bytes | None], now: int) -> Decision:
            return Decision(None, [KeyUpdate(state, now + 60_000_000) for state in reversed(states)])

        store.change([setting("a", "x"), setting("b", "y")])
        store.change([Change(("a", "b"), swap)])
        assert store.change([looking("a", "b")]) == [["y", "x"]]

    def test_a_key_without_a_step_stays_as_it_is(self, store: Store) -> None:
        store.change([setting("a", "x")])
        store.change(
            [Change(("a", "b"), lambda _states, now: Decision(None, [None, KeyUpdate(b"1", now + 60_000_000)]))]
        )
        assert store.change([looking("a", "b")]) == [["x", "1"]]

    def test_what_has_expired_is_never_seen_again(self, store: Store, clock: AdvancingClock) -> None:
        store.change([setting("a", "x", SOON), setting("b", "y")])
        clock.advance(SOON + 0.1)
        assert store.change([looking("a", "b")]) == [[None, "y"]]
        assert store.read(["a", "b"])[1] == {"b": b'"y"'}

    def test_the_time_of_a_change_is_the_time_of_a_look(self, store: Store, clock: AdvancingClock) -> None:
        (then,) = store.change([Change(("a",), lambda _states, now: Decision(now))])
        clock.advance(SOON)
        assert SOON * 900_000 <= store.read(["a"])[0] - then <= SOON * 5_000_000

    def test_what_has_expired_is_swept_in_small_chunks(self, store: Store, clock: AdvancingClock) -> None:
        store.change([setting(f"k{number}", "x", SOON) for number in range(5)])
        store.change([setting("kept", "y")])
        assert store.sweep(10) == 0
        clock.advance(SOON + 0.1)
        assert store.sweep(3) <= 3
        while store.sweep(3):
            pass
        assert store.read(["kept"])[1] == {"kept": b'"y"'}

    def test_a_batch_may_be_large_and_empty(self, store: Store) -> None:
        assert store.change([]) == []
        assert store.read([])[1] == {}
        assert store.change([setting(f"k{number}", "x") for number in range(500)]) == [None] * 500
        assert len(store.read([f"k{number}" for number in range(500)])[1]) == 500

    def test_keys_may_be_any_text(self, store: Store) -> None:
        keys = ["lock:naïve ☃ key", "A", "a", "a ", 'quote\'s "and" {braces}', "x" * 300]
        store.change([setting(key, str(number)) for number, key in enumerate(keys)])
        assert store.change([looking(*keys)]) == [[str(number) for number in range(len(keys))]]

    def test_keys_are_listed_by_their_beginning(self, store: Store, clock: AdvancingClock) -> None:
        names = ["lock:a", "lock:b*", "lock:é", "locks", "rate:a", "lock:z"]
        store.change([setting(name, name) for name in names])
        store.change([setting("lock:gone", "x", seconds=SOON)])
        clock.advance(SOON + 0.1)
        _, found = store.search("lock:", 10)
        assert sorted(found) == ["lock:a", "lock:b*", "lock:z", "lock:é"]
        assert found["lock:a"].state == b'"lock:a"'
        assert list(store.search("lock:b*", 10)[1]) == ["lock:b*"]
        assert len(store.search("lock:", 2)[1]) == 2
        assert set(store.search("", 100)[1]) >= set(names)
        assert store.search("none:", 10)[1] == {}

    def test_keys_are_listed_page_by_page(self, store: Store, clock: AdvancingClock) -> None:
        store.change([setting(f"lock:{name}", name) for name in "abdef"])
        store.change([setting(f"lock:{name}", name, seconds=SOON) for name in ("a1", "c")])
        clock.advance(SOON + 0.1)
        assert list(store.search("lock:", 2)[1]) == ["lock:a", "lock:b"]
        assert list(store.search("lock:", 2, "lock:b")[1]) == ["lock:d", "lock:e"]
        assert list(store.search("lock:", 2, "lock:e")[1]) == ["lock:f"]
        assert list(store.search("lock:e", 2, "lock:a")[1]) == ["lock:e"]
        assert store.search("lock:", 2, "lock:f")[1] == {}

    def test_many_threads_lose_no_count(self, store: Store) -> None:
        with ThreadPoolExecutor(4) as threads:
            runs = [threads.submit(lambda: [store.change([counting("n")])[0] for _ in range(50)]) for _ in range(4)]
            seen = sorted(count for run in runs for count in run.result(WAIT_TIMEOUT))
        assert seen == list(range(1, 201))

    def test_threads_that_take_the_same_keys_in_other_orders_do_not_block_each_other(self, store: Store) -> None:
        def take(keys: tuple[str, ...]) -> None:
            for _ in range(30):
                store.change([counting(key) for key in keys])

        with ThreadPoolExecutor(4) as threads:
            orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c"), ("c", "a", "b")]
            for run in [threads.submit(take, keys) for keys in orders]:
                run.result(WAIT_TIMEOUT)
        assert store.change([looking("a", "b", "c")]) == [["120"] * 3]

    def test_a_claim_is_done_once(self, store: Store) -> None:
        key = Idempotency("once:7")
        first, second = Holder("a", 1, 15.0), Holder("b", 1, 15.0)
        assert store.change([take_guards([key], first)]) == [None]
        assert store.change([take_guards([key], second)])[0].reason == "claimed"
        store.change([settle_guards([key], first, Ending(over=True, succeeded=True))])
        assert store.change([take_guards([key], second)])[0].first == "a"

    def test_a_holder_that_vanished_is_replaced_and_cannot_come_back(self, store: Store, clock: AdvancingClock) -> None:
        lock = ConcurrencyLimit("lock:x")
        assert store.change([take_guards([lock], Holder("a", 1, SOON))]) == [None]
        clock.advance(SOON + 0.1)
        assert store.change([take_guards([lock], Holder("b", 1, 60.0))]) == [None]
        store.change([settle_guards([lock], Holder("a", 1, SOON), Ending(over=True))])
        assert store.change([take_guards([lock], Holder("c", 1, 60.0))])[0].reason == "busy"

    @needs(SHARED)
    def test_fifty_processes_race_one_lock_one_key_one_bucket_and_one_breaker(self, store: Store, url: str) -> None:
        """Exactly one winner each, the limit in every window, one probe: see `guard_race`."""
        command = [sys.executable, "-m", "tenure.testing.conformance.guard_race", url, "50"]
        raced = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=WAIT_TIMEOUT, check=True)
        won: dict[str, list[str]] = {}
        for line in raced.stdout.splitlines():
            what, _, who = line.partition(" ")
            won.setdefault(what, []).append(who)
        assert [len(won[what]) for what in ("lock", "key", "probe")] == [1, 1, 1]
        assert len(won["slot"]) == 3
        starts = sorted(int(start) for start in won["token"])
        windows = [sum(start <= other < start + 1_000_000 for other in starts) for start in starts]
        assert 1 <= max(windows) <= 5
