"""CheckIns: a listener that makes a check-in of each tick, so that Sentry notices schedules that do not run.

The events of ticks come from the ledger, which lets one scheduler emit the start of a tick, and one process its end.
"""

import hashlib
import re
from math import ceil
from typing import Any, cast

from sentry_sdk.crons import capture_checkin

from tenure.app.tenure import Tenure
from tenure.backends.ledger import is_by_hand
from tenure.cron.schedule import Schedule
from tenure.definition.cron_expression import split_fields
from tenure.events import Event, TickFailed, TickStarted, TickSucceeded
from tenure.integrations.sentry.integration import active_integration

_MAX_SLUG = 50
_NEAREST_WEEKDAY = re.compile(r"\dW", re.IGNORECASE)
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))
Monitor = dict[str, Any]


class CheckIns:
    """The check-ins of the schedules of an app. A tick that is skipped or run by hand has none."""

    def __init__(self, app: Tenure) -> None:
        self._app = app
        self._monitors: dict[str, Monitor | None] = {}

    def __call__(self, event: Event) -> None:
        if not isinstance(event, (TickStarted, TickSucceeded, TickFailed)) or is_by_hand(event.tick):
            return
        integration = active_integration()
        if integration is None or not integration.monitor_schedules or event.schedule in integration.exclude_schedules:
            return
        monitor = self._monitor(event.schedule)
        if monitor is None:
            return
        status, seconds = "in_progress", None
        if not isinstance(event, TickStarted):
            status, seconds = "ok" if isinstance(event, TickSucceeded) else "error", event.seconds
        capture_checkin(
            monitor_slug=slug(event.schedule),
            check_in_id=event.id.replace("-", ""),  # the same in all processes: the end belongs to its start
            status=status,
            duration=seconds,
            monitor_config=cast("Any", monitor),
        )

    def _monitor(self, name: str) -> Monitor | None:
        """The monitor of a schedule; none if this process does not know the schedule, or Sentry cannot watch it."""
        if name not in self._monitors:
            known = {schedule.name: schedule for schedule in self._app.schedules.all()}
            self._monitors[name] = monitor_of(known[name]) if name in known else None
        return self._monitors[name]


def monitor_of(schedule: Schedule) -> Monitor | None:
    """What Sentry expects of a schedule; None for one that it cannot watch: it counts in whole minutes."""
    if schedule.interval is not None:
        unit = next((each for each in _UNITS if schedule.interval % each[0] == 0), None)
        if unit is None:
            return None
        expected = {"type": "interval", "value": schedule.interval // unit[0], "unit": unit[1]}
    else:
        fields = split_fields(schedule.expression)
        if _NEAREST_WEEKDAY.search(fields[2]):
            return None
        expected = {"type": "crontab", "value": " ".join(fields)}
    late = schedule.jitter + (schedule.misfire.grace if schedule.misfire.policy == "skip" else 0)
    monitor: Monitor = {"schedule": expected, "timezone": schedule.timezone, "checkin_margin": 1 + ceil(late / 60)}
    if schedule.job.timeout:
        attempts = 1 if schedule.inline else schedule.job.max_retries + 1
        monitor["max_runtime"] = 1 + ceil(schedule.job.timeout * attempts / 60)
    return monitor


def slug(name: str) -> str:
    """The name as Sentry allows it for a monitor; one that is too long ends with its hash."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    if plain and len(plain) <= _MAX_SLUG:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _MAX_SLUG - 9]}-{digest}" if plain else digest
