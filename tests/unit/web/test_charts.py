"""Charts: numbers become attributes of SVG elements."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure.web.charts import ChartSeries, meter, nice_top, plot, sparkline, strip, time_axis, value_axis

START = datetime(2026, 11, 15, 13, 32, tzinfo=UTC)


def test_a_sparkline_is_drawn_from_zero_over_its_whole_width() -> None:
    spark = sparkline([5, 10, None])
    assert spark is not None
    assert spark.line == "0.0,10.0 36.0,1.0 72.0,19.0"
    assert spark.area == "0,20 0.0,10.0 36.0,1.0 72.0,19.0 72,20"


def test_a_line_of_zeros_lies_on_the_ground() -> None:
    spark = sparkline([0, 0])
    assert spark is not None
    assert spark.line == "0.0,19.0 72.0,19.0"


def test_fewer_than_two_values_make_no_line() -> None:
    assert sparkline([3]) is None


def test_the_parts_of_a_meter_stand_side_by_side() -> None:
    assert [(part.tone, part.x, part.width) for part in meter([("ready", 1), ("delayed", 0), ("parked", 3)])] == [
        ("ready", 0, 25),
        ("parked", 25, 75),
    ]


def test_a_meter_leaves_the_rest_of_its_total_empty() -> None:
    assert [part.width for part in meter([("running", 9)], total=36)] == [25]


def test_a_small_part_is_seen_and_the_parts_still_fit() -> None:
    parts = meter([("ready", 1_000_000), ("parked", 1)])
    assert parts[1].width > 1
    assert parts[1].x + parts[1].width <= 100.01


@pytest.mark.parametrize("parts", [[], [("ready", 0)]])
def test_a_meter_of_nothing_is_empty(parts: list[tuple[str, float]]) -> None:
    assert meter(parts) == []


def test_the_strip_has_its_newest_tick_at_the_right_end() -> None:
    assert [(bar.outcome, bar.x, bar.y, bar.height) for bar in strip(["failed", "skipped"])] == [
        ("failed", 168, 0, 20),
        ("skipped", 174, 16, 4),
    ]


def test_the_strip_shows_the_last_thirty_ticks() -> None:
    bars = strip(["failed", *["succeeded"] * 30])
    assert ({bar.outcome for bar in bars}, len(bars), bars[0].x) == ({"succeeded"}, 30, 0)


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 1), (0.4, 0.4), (3.3, 4), (11, 12), (17, 20), (20, 20), (47, 60), (5568, 6000)]
)
def test_the_top_of_an_axis_is_a_round_number(highest: float, top: float) -> None:
    assert nice_top(highest) == top


@pytest.mark.parametrize(
    ("highest", "unit", "labels"),
    [
        (17, "", ["0", "10", "20"]),
        (3.3, "%", ["0", "2", "4 %"]),
        (5568, "", ["0", "3 k", "6 k"]),
        (2_500_000, "", ["0", "1.5 M", "3 M"]),
        (11, "s", ["0", "6", "12 s"]),
        (2820, "s", ["0", "30", "60 min"]),
    ],
)
def test_an_axis_has_three_labels_and_the_highest_names_the_unit(highest: float, unit: str, labels: list[str]) -> None:
    assert [tick.label for tick in value_axis(highest, unit)] == labels


def test_labels_in_minutes_stand_at_their_seconds() -> None:
    assert [tick.at for tick in value_axis(2820, "s")] == [0, 1800, 3600]


def test_times_are_labelled_from_the_start_to_the_end() -> None:
    ticks = time_axis(START, START + timedelta(hours=1))
    assert [tick.label for tick in ticks] == ["13:32", "14:02", "14:32"]
    assert ticks[0].at == START.timestamp()


def test_a_window_of_days_is_labelled_with_dates() -> None:
    assert [tick.label for tick in time_axis(START, START + timedelta(days=4))] == ["15 Nov", "17 Nov", "19 Nov"]


def test_a_figure_without_values_still_has_its_axes() -> None:
    figure = plot([START, START + timedelta(hours=1)], [ChartSeries("done", [None, None])])
    assert [tick.label for tick in figure.y_axis] == ["0", "0.5", "1"]


def test_a_figure_of_one_time_has_no_axis_of_time() -> None:
    assert plot([START], [ChartSeries("done", [1])]).x_axis == ()
