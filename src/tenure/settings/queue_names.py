"""The queues that the settings name, each in one spelling: names are the same in any case, and aliases count."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import structs

from tenure.settings.values import LaneSettings, Settings

V = TypeVar("V")


def with_one_spelling(settings: Settings) -> Settings:
    """The settings with the first spelling of each queue everywhere, so that no other code has to compare names."""
    aliases = {alias.lower(): queue for alias, queue in settings.aliases.items()}
    spellings = {name: name for name in Settings().queues}  # the queues of every app keep their spelling

    def spell(queue: str) -> str:
        found = aliases.get(queue.lower(), queue)
        return spellings.setdefault(found.lower(), found)

    changes: dict[str, Any] = {
        "queues": tuple(map(spell, settings.queues)),
        "lanes": {name: _lane(lane, spell) for name, lane in settings.lanes.items()},
        "aliases": {alias: spellings.setdefault(queue.lower(), queue) for alias, queue in settings.aliases.items()},
        "allow": _keys(settings.allow, spell, "allow"),
        "rates": _keys(settings.rates, spell, "rates"),
        "scopes": _with_queues(settings.scopes, spell),
        "notifications": _with_queues(settings.notifications, spell),
    }
    changed = {name: value for name, value in changes.items() if value != getattr(settings, name)}
    return structs.replace(settings, **changed) if changed else settings


def named_queues(settings: Settings) -> Iterator[str]:
    """Every queue that the settings name."""
    yield from settings.queues
    for lane in settings.lanes.values():
        yield from lane.queues
    yield from (*settings.aliases.values(), *settings.allow, *settings.rates)
    for scope in settings.scopes.values():
        yield from scope.queues or ()
    for notification in settings.notifications.values():
        yield from notification.queues


def _lane(lane: LaneSettings, spell: Callable[[str], str]) -> LaneSettings:
    return structs.replace(
        lane, queues=tuple(map(spell, lane.queues)), weights=_keys(lane.weights, spell, "the weights of a lane")
    )


def _keys(table: Mapping[str, V], spell: Callable[[str], str], name: str) -> dict[str, V]:
    found: dict[str, V] = {}
    for queue, value in table.items():
        if (spelling := spell(queue)) in found:
            raise ValueError(f"{name} names the queue {spelling!r} twice, also as {queue!r}; keep one of them")
        found[spelling] = value
    return found


def _with_queues(table: Mapping[str, Any], spell: Callable[[str], str]) -> dict[str, Any]:
    return {
        name: structs.replace(each, queues=_tuple(map(spell, each.queues))) if each.queues else each
        for name, each in table.items()
    }


def _tuple(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
