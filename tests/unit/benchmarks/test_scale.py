"""The page on scale is calculated from the measured costs."""

import json

from benchmarks import scale

COSTS = {
    "measured": "once",
    "servers": {
        "redis": {"producer": 10, "worker": 30, "store": 5, "settle": 15},
        "postgresql": {"producer": 20, "worker": 25, "store": 10, "settle": 15},
        "mariadb": {"producer": 20, "worker": 25, "store": 20, "settle": 30.5},
        "sqlite": {"producer": 20, "worker": 40},
    },
}
PAGE = "".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in ("costs", "limits", "rates"))


def test_the_page_says_what_the_committed_costs_say() -> None:
    text = scale.PAGE.read_text()
    assert text == scale.updated(text, json.loads(scale.COSTS.read_text())), "run `python -m benchmarks.scale`"


def test_half_of_each_core_is_idle_and_workers_are_those_of_the_dearer_server() -> None:
    text = scale.updated(PAGE, COSTS)
    assert "| 100 000 | 4 | 5 | 6 | 4 |" in text  # 100 000 × 20, 25, 30 and 20 µs, twice


def test_a_limit_is_what_one_core_can_serve() -> None:
    text = scale.updated(PAGE, COSTS)
    assert "one process drains about 25 000 jobs a second" in text
    assert "At 20 µs for storing and draining a job, one server handles about 50 000 jobs a second" in text
    assert "so 2 or more workers use one server fully" in text
    assert "the same at 2.0 times the CPU" in text
    assert "old" not in text


def test_what_was_not_measured_is_said() -> None:
    text = scale.updated(PAGE, COSTS | {"servers": COSTS["servers"] | {"beanstalk": {"worker": "38 to 50"}}})  # type: ignore[operator]
    assert "| beanstalkd | not measured | 38 to 50 | not measured | not measured |" in text
