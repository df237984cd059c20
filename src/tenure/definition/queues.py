"""Queues: the names, aliases and classes of the queues of an app."""

import inspect
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from tenure.definition.callables import name_of, refuse_generator
from tenure.definition.limits import check_queue
from tenure.errors import InvalidHandler, InvalidJob

_QUEUE_HOOKS = ("setup", "refresh")


@runtime_checkable
class QueueClass(Protocol):
    """A class or instance with a `name`; `aliases`, `setup(worker)` and `refresh(worker)` are optional.

    A worker calls `setup` once when it starts and `refresh` at every refresh interval, in threads beside the jobs.
    Both get the worker's id and may be async. If they raise, the worker logs the error and continues.
    """

    name: str


class Queues:
    """Resolves a name, an alias in upper or lower case, a class or an instance to the name of the queue."""

    def __init__(self) -> None:
        self._classes: dict[str, QueueClass] = {}
        self._aliases: dict[str, str] = {}

    def add(self, queue: QueueClass) -> None:
        name = check_queue(queue.name)
        hooks = [getattr(queue, hook, None) for hook in _QUEUE_HOOKS]
        for hook, function in zip(_QUEUE_HOOKS, hooks, strict=True):
            refuse_generator(function, f"{hook} of queue {name!r}")
        if isinstance(queue, type) and any(map(inspect.isfunction, hooks)):
            queue = _instance_of(queue)
        self._classes[name] = queue
        for alias in getattr(queue, "aliases", ()):
            self.alias(alias, name)

    def alias(self, alias: str, queue: str) -> None:
        taken = self._aliases.setdefault(alias.lower(), check_queue(queue))
        if taken != queue:
            raise InvalidJob(f"the alias {alias!r} already stands for queue {taken!r}; choose another for {queue!r}")

    def resolve_or_add(self, queue: str | QueueClass) -> str:
        """The name of a queue; a queue class is added if it is new, and never replaces a registered one."""
        if isinstance(queue, str):
            return self.resolve(queue)
        known = self._classes.get(queue.name)
        if known is None:
            self.add(queue)
        elif _class_of(known) is not _class_of(queue):
            raise InvalidJob(
                f"queue {queue.name!r} is registered with {name_of(_class_of(known))!r}, not with "
                f"{name_of(_class_of(queue))!r}; give one of them another name"
            )
        return queue.name

    def resolve(self, queue: str | QueueClass) -> str:
        if not isinstance(queue, str):
            return check_queue(queue.name)
        if queue in self._classes:
            return queue
        return self._aliases.get(queue.lower()) or check_queue(queue)

    def classes(self, names: Iterable[str]) -> list[QueueClass]:
        """The registered classes of these queues, each once."""
        return [self._classes[name] for name in dict.fromkeys(names) if name in self._classes]


def _class_of(queue: Any) -> type:
    return queue if isinstance(queue, type) else type(queue)


def _instance_of(cls: Any) -> Any:
    """An instance of a queue class, so that its hooks have a `self`."""
    try:
        return cls()
    except TypeError as error:
        raise InvalidHandler(f"queue class {cls.__qualname__!r} cannot be made: {error}; pass an instance") from error
