"""Summaries of durations and counts, and their percentiles."""

import pytest

from tenure.events import Run, Settlement, Status
from tenure.metrics.statistics import (
    Counts,
    DurationHistogram,
    Tally,
    merge_histograms,
    merge_workers,
    sum_counts,
    summaries,
)


def spread(*sizes: float) -> DurationHistogram:
    made = DurationHistogram()
    for size in sizes:
        made.add(size)
    return made


def settled(status: Status, run: Run | None = None, *, failed: bool = False) -> Settlement:
    return Settlement("1", "mail", status, 1, None, failed, run)


def counts(*settlements: Settlement) -> Counts:
    made = Counts()
    for each in settlements:
        made.add(each)
    return made


@pytest.mark.parametrize("size", [0.00002, 0.0013, 0.25, 1.0, 59.0, 86_400.0])
def test_a_percentile_is_right_to_within_a_tenth(size):
    assert spread(size).percentile(0.5) == pytest.approx(size, rel=0.1)


def test_percentiles_follow_the_shares():
    sizes = spread(*[0.01] * 90, *[1.0] * 9, 100.0)
    assert sizes.percentile(0.5) == pytest.approx(0.01, rel=0.1)
    assert sizes.percentile(0.95) == pytest.approx(1.0, rel=0.1)
    assert sizes.percentile(1.0) == pytest.approx(100.0, rel=0.1)


def test_nothing_has_no_percentile_and_no_mean():
    assert (DurationHistogram().percentile(0.5), DurationHistogram().mean()) == (None, None)


def test_what_took_no_time_counts():
    assert (spread(0.0, 0.0).percentile(0.5), spread(0.0).count()) == (0.0, 1)


def test_merging_is_the_same_as_counting_together():
    assert merge_histograms([spread(1.0, 2.0), spread(2.0, 400.0)]) == spread(1.0, 2.0, 2.0, 400.0)


def test_summing_changes_none_of_its_parts():
    first, second = counts(settled(Status.ACKED)), counts(settled(Status.ACKED), settled(Status.REQUEUED))
    assert sum_counts([first, second]).statuses == {"acked": 2, "requeued": 1}
    assert first == counts(settled(Status.ACKED))


def test_folding_forgets_who_counted_and_nothing_else():
    one, other = counts(settled(Status.ACKED)), counts(settled(Status.ACKED), settled(Status.ACKED))
    tallies = [
        Tally(1, "mail", "greet", "a", one),
        Tally(1, "mail", "greet", "b", other),
        Tally(2, "mail", "x", "b", one),
    ]
    assert merge_workers(tallies) == [
        Tally(1, "mail", "greet", "", sum_counts([one, other])),
        Tally(2, "mail", "x", "", one),
    ]


def test_a_summary_tells_counts_rates_and_lengths():
    ran = [settled(Status.ACKED, Run("greet", 0, 2.0, 0.5, 1.5)) for _ in range(60)]
    again = settled(Status.REQUEUED, Run("greet", 0, 2.0), failed=True)
    dead = settled(Status.DEAD_LETTERED, Run("greet", 0, 2.0), failed=True)
    tallies = [
        Tally(0, "mail", "greet", "", counts(*ran, again, dead)),
        Tally(0, "mail", "", "", counts(settled(Status.REJECTED))),
    ]
    (mail,) = summaries(tallies, 60.0)
    assert (mail.name, mail.done, mail.failed, mail.retried, mail.dead, mail.rate) == ("mail", 60, 2, 1, 2, 1.0)
    assert (mail.run.mean, mail.cpu) == (2.0, 90.0)
    assert mail.wait.p99 == pytest.approx(0.5, rel=0.1)
    assert [each.name for each in summaries(tallies, 60.0, "handler")] == ["greet"]
