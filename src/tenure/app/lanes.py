"""The lanes that settings and arguments describe, as values, with every queue under its proper name."""

from collections.abc import Iterable, Sequence
from typing import cast

from msgspec.structs import asdict

from tenure.definition.queues import Queues
from tenure.errors import SettingsError
from tenure.settings import Settings
from tenure.worker.lane import Lane, RunnerKind, side_by_side


def queues_of(settings: Settings) -> Sequence[str]:
    """Every queue that the settings have workers serve."""
    if not settings.lanes:
        return settings.queues
    return [queue for lane in settings.lanes.values() for queue in lane.queues]


def find_lanes(wanted: Iterable[str | Lane], settings: Settings, queues: Queues) -> list[Lane]:
    """Lanes by the name they have in the settings, or as they are, in the order a worker wants them."""
    found = [_configured(each, settings) if isinstance(each, str) else each for each in wanted]
    return side_by_side([_resolved(lane, queues) for lane in found])


def _configured(name: str, settings: Settings) -> Lane:
    if name not in settings.lanes:
        known = f"known ones: {', '.join(settings.lanes)}" if settings.lanes else "the settings have none"
        raise SettingsError(f"there is no lane {name!r}; {known}")
    values = asdict(settings.lanes[name])
    return Lane(**{**values, "name": name, "runner": cast("RunnerKind", values["runner"])})


def _resolved(lane: Lane, queues: Queues) -> Lane:
    return Lane(
        queues=tuple(map(queues.resolve, lane.queues)),
        weights={queues.resolve(queue): weight for queue, weight in lane.weights.items()},
        runner=lane.runner,
        concurrency=lane.concurrency,
        name=lane.name,
    )
