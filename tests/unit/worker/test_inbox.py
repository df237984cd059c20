"""The inbox between leaser and runner."""

import threading
import time

import pytest

from tenure.worker.inbox import HeldLeases, Inbox
from tests.support.call_counter import calls_of
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def idle():
    return threading.Event()


@pytest.fixture
def opened():
    """The attempt that each lease opens to."""
    return {}


@pytest.fixture
def inbox_for(idle, opened):
    def make(concurrency):
        return Inbox(concurrency, on_idle=idle.set, admit=lambda leases: [opened[id(lease)] for lease in leases])

    return make


@pytest.fixture
def inbox(inbox_for):
    return inbox_for(1)


@pytest.fixture
def attempts(attempt_of, opened):
    made = [attempt_of() for _ in range(3)]
    opened.update({id(attempt.ticket): attempt for attempt in made})
    return made


def always(attempt):
    return True


def leases(attempts):
    return [attempt.ticket for attempt in attempts]


def test_no_attempt_is_taken_behind_one_that_leaves_no_room(inbox, attempts):
    inbox.fill(leases(attempts))

    assert inbox.take_up_to(3, lambda attempt: attempt is not attempts[1]) == attempts[:2]
    assert inbox.take_up_to(3, always) == attempts[2:]


def test_attempts_are_taken_in_the_order_they_came(inbox, attempts):
    inbox.fill(leases(attempts[:2]))
    inbox.fill(leases(attempts[2:]))

    assert [inbox.take() for _ in range(3)] == attempts


def test_taking_waits_for_the_next_attempt_and_tells_that_it_is_idle(inbox, idle, attempts):
    taken = []
    taker = threading.Thread(target=lambda: taken.append(inbox.take()))
    taker.start()
    was_idle = idle.wait(WAIT_SECONDS)

    inbox.fill(leases(attempts[:1]))
    taker.join(WAIT_SECONDS)

    assert was_idle
    assert taken == attempts[:1]


def test_a_closed_inbox_is_emptied_and_then_gives_none(inbox, attempts):
    inbox.fill(leases(attempts[:1]))

    inbox.close()

    assert [inbox.take(), inbox.take(), inbox.take()] == [attempts[0], None, None]


def test_closing_wakes_whoever_waits(inbox, idle):
    taken = ["nothing yet"]
    taker = threading.Thread(target=lambda: taken.append(inbox.take()))
    taker.start()
    idle.wait(WAIT_SECONDS)

    inbox.close()
    taker.join(WAIT_SECONDS)

    assert taken == ["nothing yet", None]


def test_everything_unstarted_can_be_taken_back_in_order(inbox, attempts):
    inbox.fill(leases(attempts))
    started = inbox.take()

    assert inbox.take_back() == leases(attempts[1:])
    assert started == attempts[0]


def test_what_was_taken_back_is_not_run(inbox, attempts):
    inbox.fill(leases(attempts))
    inbox.take_back()
    inbox.close()

    assert inbox.take() is None


def test_nothing_is_taken_back_before_its_age(inbox, attempts):
    inbox.fill(leases(attempts))

    assert inbox.take_back(60.0) == []


def test_what_waited_its_age_is_taken_back(inbox, attempts):
    inbox.fill(leases(attempts))
    time.sleep(0.02)  # the inbox measures by the monotonic clock of the host

    assert inbox.take_back(0.01) == leases(attempts)


def test_an_empty_inbox_gives_nothing_back(inbox):
    assert inbox.take_back() == []


def test_many_attempts_can_be_taken_without_waiting(inbox, attempts):
    inbox.fill(leases(attempts))

    assert [inbox.take_up_to(2, always) for _ in range(3)] == [attempts[:2], attempts[2:], []]


def test_attempts_put_back_come_first_again(inbox, attempts):
    inbox.fill(leases(attempts))
    taken = inbox.take_up_to(2, always)

    inbox.put_back(taken)

    assert inbox.take_up_to(3, always) == attempts


def test_attempts_put_back_are_old_enough_to_be_handed_back(inbox, attempts):
    inbox.fill(leases(attempts))

    inbox.put_back(inbox.take_up_to(3, always))

    assert inbox.take_back(0.25) == leases(attempts)


def test_finding_nothing_to_take_tells_that_the_inbox_is_idle(inbox, idle):
    inbox.take_up_to(5, always)

    assert idle.is_set()


def test_attempts_whose_lease_was_lost_are_forgotten(inbox, attempt_of, opened):
    mine, lost = attempt_of(attempts=1), attempt_of(attempts=2, fence=7)
    opened.update({id(mine.ticket): mine, id(lost.ticket): lost})
    inbox.fill(leases([mine, lost]))

    assert inbox.discard([lost.ticket]) == [lost.ticket]
    assert inbox.discard([lost.ticket]) == []
    assert inbox.take_up_to(5, always) == [mine]


def test_a_grown_runner_demands_more(inbox):
    inbox.resize(6)

    assert inbox.demand(unsettled=0) == 6


def test_whoever_asked_is_told_of_arrivals_and_of_the_end(inbox, attempts):
    told = []
    inbox.on_arrival(lambda: told.append(inbox.is_over()))

    inbox.fill(leases(attempts[:1]))
    inbox.take()
    inbox.close()

    assert told == [False, True]


def test_a_closed_inbox_is_over_once_it_is_empty(inbox, attempts):
    inbox.fill(leases(attempts[:1]))
    inbox.close()
    before = inbox.is_over()

    inbox.take()

    assert (before, inbox.is_over()) == (False, True)


def test_a_fresh_inbox_demands_what_can_start_at_once(inbox_for):
    assert inbox_for(4).demand(unsettled=0) == 4


def test_who_asked_for_room_in_vain_hears_once_that_few_are_left():
    heard = threading.Event()
    inbox = Inbox(1, on_idle=lambda: None, admit=list, on_low=heard.set)
    inbox.batch_size = 10
    inbox.finished(0.001)
    inbox.fill([object() for _ in range(45)])
    assert inbox.demand(unsettled=45) == 0

    inbox.take_up_to(10, always)
    assert not heard.is_set()
    inbox.take_up_to(10, always)
    assert heard.is_set()
    heard.clear()
    inbox.take_up_to(25, always)
    assert not heard.is_set()


def test_a_running_attempt_takes_a_slot(inbox_for, attempts):
    inbox = inbox_for(4)
    inbox.fill(leases(attempts[:1]))
    inbox.take()

    assert inbox.demand(unsettled=1) == 3


def test_a_finished_attempt_frees_its_slot_and_teaches_its_duration(inbox, attempts):
    inbox.fill(leases(attempts[:1]))
    inbox.take()

    inbox.finished(0.01)

    assert inbox.demand(unsettled=1) == 6


def test_the_mean_duration_follows_slowly(inbox, attempts):
    for _ in range(3):
        inbox.fill(leases(attempts[:1]))
        inbox.take()
        inbox.finished(0.001)
    inbox.fill(leases(attempts[:1]))
    inbox.take()
    inbox.finished(10.0)

    assert inbox.demand(unsettled=0) == 1


def test_a_lease_that_may_not_run_is_passed_over(idle, attempts):
    inbox = Inbox(1, on_idle=idle.set, admit=lambda leases: attempts[1:] if leases else [])
    inbox.fill(leases(attempts))

    assert [inbox.take(), inbox.take()] == attempts[1:]


def test_holding_and_dropping_leases_makes_no_call_for_each_of_them(lease_of):
    held, leases = HeldLeases(), [lease_of(id=f"id-{number}") for number in range(100)]

    holding, _ = calls_of(lambda: held.hold(leases, 0.0, 15.0))
    dropping, _ = calls_of(lambda: held.drop(leases))

    assert holding.total() < 10, holding
    assert dropping.total() < 10, dropping


def test_two_leases_on_one_job_are_held_apart(lease_of):
    old, new = lease_of(fence=1), lease_of(fence=2)
    held = HeldLeases()
    held.hold([old], 0.0, 15.0)
    held.hold([new], 100.0, 15.0)

    assert held.overdue(50.0) == [old]
    assert held.drop([old]) == [old]
    assert held.leases() == [new]
