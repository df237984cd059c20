"""An idempotency key is final only when its job has succeeded."""

from hypothesis import given
from hypothesis import strategies as st

from tenure.guards.idempotency import DAY, Idempotency
from tenure.guards.states import WAKE_ALL
from tests.unit.guards.conftest import NOW, SECOND, Key


def test_another_job_waits_while_the_key_is_claimed():
    key = Key(Idempotency("once:7"))
    assert key.take("a") is None
    assert key.take("b").reason == "claimed"


def test_another_job_is_skipped_once_the_key_is_done_and_told_by_whom():
    key = Key(Idempotency("once:7"))
    key.take("a")
    assert key.settle("a", succeeded=True).wake == WAKE_ALL
    refusal = key.take("b")
    assert (refusal.reason, refusal.first) == ("done", "a")


def test_a_job_finds_its_own_done():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.settle("a", succeeded=True)
    assert key.take("a", fence=2).first == "a"


def test_a_failed_job_is_not_skipped_when_it_is_tried_again():
    """A key recorded before the run loses the job on its first failure."""
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.settle("a", over=False, succeeded=False, again=60)
    key.advance(60)
    assert key.take("a", fence=2) is None


def test_a_claim_outlives_the_next_retry_by_two_leases():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.settle("a", over=False, succeeded=False, again=60)
    key.advance(60 + 29)
    assert key.take("b").reason == "claimed"
    key.advance(1)
    assert key.take("b") is None


def test_a_dead_job_leaves_the_key_to_the_next():
    key = Key(Idempotency("once:7"))
    key.take("a")
    assert key.settle("a", succeeded=False).wake == 1
    assert key.take("b") is None


def test_a_crashed_job_re_enters_its_own_claim():
    key = Key(Idempotency("once:7"))
    key.take("a", fence=1)
    key.advance(5)
    assert key.take("a", fence=2) is None
    key.settle("a", fence=1, succeeded=True)
    assert key.take("b").reason == "claimed"


def test_what_is_done_is_remembered_for_its_time_and_no_longer():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.settle("a", succeeded=True)
    assert key.row.expires == NOW + DAY * SECOND
    key.advance(DAY)
    assert key.take("b") is None


@given(
    moves=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["take", "fail", "die", "succeed", "wait"])), max_size=60
    )
)
def test_a_job_is_skipped_only_after_a_success(moves):
    key, held, succeeded = Key(Idempotency("once:x")), {}, None
    for fence, (id, move) in enumerate(moves):
        if move == "wait":
            key.advance(7)
        elif move == "take":
            refusal = key.take(id, fence)
            if refusal is None:
                held[id] = fence
            elif refusal.reason == "done":
                assert refusal.first == succeeded
        elif id in held:
            step = key.settle(id, held.pop(id), over=move != "fail", succeeded=move == "succeed", again=3)
            succeeded = id if move == "succeed" and step is not None else succeeded


def test_a_success_is_recorded_although_its_claim_has_expired():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.advance(1000)
    key.settle("a", succeeded=True)
    assert key.take("b").first == "a"


def test_a_success_whose_claim_another_job_has_taken_by_then_is_not_recorded():
    """The window that remains where the store does not keep the leases: both jobs have run."""
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.advance(1000)
    assert key.take("b") is None
    assert key.settle("a", succeeded=True) is None
    assert key.take("c").reason == "claimed"


def test_a_success_does_not_replace_the_first_success():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.settle("a", succeeded=True)
    assert key.settle("b", succeeded=True) is None
    assert key.take("c").first == "a"


def test_a_failure_after_the_claim_expired_changes_nothing():
    key = Key(Idempotency("once:7"))
    key.take("a")
    key.advance(1000)
    assert key.settle("a", succeeded=False) is None
