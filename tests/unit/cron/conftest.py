"""Schedules to decide about."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import Job
from tenure.clock import to_microseconds
from tenure.cron.builder import ScheduleBuilder
from tenure.cron.schedule import Schedule


@pytest.fixture
def builder() -> ScheduleBuilder:
    return ScheduleBuilder(Job(handler="report", cron="* * * * *"), lambda job, backend: "id-1")


@pytest.fixture
def schedule() -> Callable[..., Schedule]:
    """Make a schedule of an expression; what its job says goes into `job`."""

    def make(
        cron: str = "* * * * *", name: str = "report", job: dict[str, Any] | None = None, **fields: Any
    ) -> Schedule:
        return Schedule(name=name, job=Job(handler="report", cron=cron, **(job or {})), **fields)

    return make


@pytest.fixture
def at() -> Callable[..., int]:
    """A moment of 2026, in UTC microseconds."""

    def moment(*parts: int) -> int:
        return to_microseconds(datetime(2026, *parts, tzinfo=UTC))

    return moment
