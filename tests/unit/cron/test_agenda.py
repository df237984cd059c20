"""The agenda: what is due next, in which order, and at what cost."""

from datetime import UTC, datetime

from tenure.cron.builder import in_dependency_order
from tenure.cron.schedule import Misfire, Schedule
from tenure.cron.scheduler import Agenda, DroppedTicks

HOUR = 3_600_000_000


def ticks(due):
    return [(each.schedule.name, each.tick) for each in due]


def test_nothing_is_due_before_its_time(schedule, at):
    agenda = Agenda([schedule("@hourly")], at(1, 1))

    assert agenda.next_due() == at(1, 1, 1)
    assert agenda.take(at(1, 1, 1) - 1) == ([], [])


def test_a_tick_is_taken_once(schedule, at):
    agenda = Agenda([schedule("@hourly")], at(1, 1))

    assert ticks(agenda.take(at(1, 1, 1))[0]) == [("report", at(1, 1, 1))]
    assert agenda.take(at(1, 1, 1)) == ([], [])
    assert agenda.next_due() == at(1, 1, 2)


def test_what_is_due_together_comes_in_the_order_of_dependencies(schedule, at):
    declared = [
        schedule("@hourly", "report", {"depends_on": ("load",)}),
        schedule("@hourly", "load"),
        schedule("*/30 * * * *", "ping"),
    ]
    agenda = Agenda(in_dependency_order(declared), at(1, 1, 0, 30))

    assert ticks(agenda.take(at(1, 1, 1))[0]) == [(name, at(1, 1, 1)) for name in ("load", "report", "ping")]


def test_what_was_missed_is_made_up_for_tick_by_tick(schedule, at):
    made_up = Misfire("all")
    both = [schedule("@hourly", name, misfire=made_up) for name in ("a", "b")]
    agenda = Agenda(both, at(1, 1))

    due, dropped = agenda.take(at(1, 1, 2, 30))

    assert ticks(due) == [(name, at(1, 1, hour)) for hour in (1, 2) for name in ("a", "b")]
    assert dropped == []


def test_what_was_missed_for_good_is_told(schedule, at):
    found = schedule("@hourly")
    agenda = Agenda([found], at(1, 1))

    assert agenda.take(at(1, 1, 5, 30)) == ([], [DroppedTicks(found, at(1, 1, 1), at(1, 1, 5))])
    assert agenda.next_due() == at(1, 1, 6)


def test_a_clock_that_goes_back_repeats_nothing(schedule, at):
    agenda = Agenda([schedule("@hourly")], at(1, 1))
    agenda.take(at(1, 1, 5))

    assert agenda.take(at(1, 1, 1)) == ([], [])
    assert agenda.next_due() == at(1, 1, 6)


def test_jitter_moves_when_a_tick_is_due_and_not_the_tick(schedule, at):
    found = schedule("@hourly", jitter=600.0)
    agenda = Agenda([found], at(1, 1))

    assert agenda.next_due() == found.due_at(at(1, 1, 1)) > at(1, 1, 1)
    assert ticks(agenda.take(agenda.next_due())[0]) == [("report", at(1, 1, 1))]


def test_a_schedule_that_has_ended_leaves_the_agenda(schedule, at):
    agenda = Agenda([schedule("@hourly", ends_at=datetime(2026, 1, 1, 2, tzinfo=UTC))], at(1, 1))
    agenda.take(at(1, 1, 1))

    assert agenda.next_due() is None


def test_a_day_without_pauses_takes_every_tick_once(schedule, at):
    found = [schedule("*/7 * * * *", "a", jitter=90.0), schedule("0 */3 * * *", "b"), schedule("13 5 * * *", "c")]
    agenda = Agenda(found, at(1, 1))
    taken = []
    while (due := agenda.next_due()) is not None and due <= at(1, 2):
        taken += ticks(agenda.take(due)[0])

    for each in found:
        expected, tick = [], each.after(at(1, 1))
        while each.due_at(tick) <= at(1, 2):
            expected.append(tick)
            tick = each.after(tick)
        assert [tick for name, tick in taken if name == each.name] == expected


def test_the_cost_of_a_tick_follows_what_is_due_and_not_what_exists(schedule, at, monkeypatch):
    """Counted rather than timed: each look at a schedule asks it for its next or its last tick."""
    many = [schedule(f"{n % 60} {n // 60 % 24} * * *", str(n)) for n in range(10_000)]
    agenda = Agenda(many, at(1, 1))
    looks = []
    for verb in ("after", "before"):
        true = getattr(Schedule, verb)
        monkeypatch.setattr(
            Schedule, verb, lambda self, moment, true=true: looks.append(self.name) or true(self, moment)
        )

    due, _ = agenda.take(at(1, 1, 0, 1))

    assert len(due) == 7
    assert len(set(looks)) == 7
    assert len(looks) <= 5 * 7


def test_each_schedule_goes_on_from_its_last_known_tick(schedule, at):
    found = [schedule("@hourly", name, misfire=Misfire("all")) for name in ("known", "new")]
    agenda = Agenda(found, at(1, 1, 4), {"known": at(1, 1, 2)})

    assert ticks(agenda.take(at(1, 1, 5))[0]) == [
        ("known", at(1, 1, 3)),
        ("known", at(1, 1, 4)),
        ("known", at(1, 1, 5)),
        ("new", at(1, 1, 5)),
    ]
