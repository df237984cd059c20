"""Queues: the names, aliases and classes of the queues of an app.

No name is ever imported to find its class: only registered classes are known, since names come in messages too.
"""

import inspect
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from tenure.definition.callables import name_of, refuse_generator
from tenure.definition.job import DEFAULT_QUEUE
from tenure.definition.limits import check_queue
from tenure.errors import InvalidHandler, InvalidJob, UnknownQueue
from tenure.suggestions import nearest

_QUEUE_HOOKS = ("setup", "refresh")


@runtime_checkable
class QueueClass(Protocol):
    """A class or instance with a `name`; `aliases`, `setup(worker)` and `refresh(worker)` are optional.

    A worker calls `setup` once when it starts and `refresh` at every refresh interval, in threads beside the jobs.
    Both get the worker's id and may be async. If they raise, the worker logs the error and continues.
    """

    @property
    def name(self) -> str: ...


Queue = str | QueueClass | type[QueueClass]


class Queues:
    """Finds the name of a queue: from its name or an alias in any case, its class, its class's path, or an instance.

    The first spelling of a name that the app knows is the name of the queue. The app knows the queues of its settings,
    of its queue classes, of aliases, and of the defaults of handlers. Other names stand for themselves, unless the
    queues are strict.
    """

    def __init__(self, known: Iterable[str] = (), *, strict: bool = False) -> None:
        self._strict = strict
        self._names: dict[str, str] = {}
        self._classes: dict[str, Any] = {}  # instances, and classes whose hooks need no instance
        self._class_paths: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        # Every enqueue looks here first. It holds known queues only, so that it does not grow.
        self._found: dict[str, str] = {}
        for name in (DEFAULT_QUEUE, *known):
            self.know(name)

    def know(self, name: str) -> str:
        """Make a queue known; return its name, which is the first spelling."""
        self._found.clear()
        return self._names.setdefault(name.lower(), check_queue(name))

    def add(self, queue: QueueClass | type[QueueClass]) -> None:
        name = check_queue(_name_of(queue))
        hooks = [getattr(queue, hook, None) for hook in _QUEUE_HOOKS]
        for hook, function in zip(_QUEUE_HOOKS, hooks, strict=True):
            refuse_generator(function, f"{hook} of queue {name!r}")
        cls = _class_of(queue)
        needs_self = queue is cls and any(map(inspect.isfunction, hooks))
        added = _instance_of(cls) if needs_self else queue
        name = self.know(name)
        self._classes[name] = added
        for separator in ".:":
            self._class_paths[f"{cls.__module__}{separator}{cls.__qualname__}"] = name
        for alias in getattr(added, "aliases", ()):
            self.alias(alias, name)

    def alias(self, alias: str, queue: str) -> None:
        queue = self.know(queue)
        taken = self._aliases.setdefault(alias.lower(), queue)
        if taken != queue:
            raise InvalidJob(f"the alias {alias!r} already stands for queue {taken!r}; choose another for {queue!r}")

    def resolve_or_add(self, queue: Queue) -> str:
        """As `resolve`; a queue class is added if it is new, and never replaces a registered one."""
        if isinstance(queue, str):
            return self.resolve(queue)
        name = self.resolve(queue)
        known = self._classes.get(name)
        if known is None:
            self.add(queue)
        elif _class_of(known) is not _class_of(queue):
            raise InvalidJob(
                f"queue {name!r} is registered with {name_of(_class_of(known))!r}, not with "
                f"{name_of(_class_of(queue))!r}; give one of them another name"
            )
        return name

    @property
    def names(self) -> tuple[str, ...]:
        """The known names and aliases."""
        return tuple(dict.fromkeys([*self._names.values(), *self._aliases]))

    def resolve(self, queue: Queue) -> str:
        """The name of a queue; an unknown name stands for itself, or is refused if the queues are strict."""
        if not isinstance(queue, str):
            name = _name_of(queue)
            return self._names.get(name.lower()) or check_queue(name)
        found = self._found.get(queue) or self.find(queue)
        if found is None and self._strict:
            raise self.unknown(queue)
        return found or check_queue(queue)

    def find(self, queue: str) -> str | None:
        """The name of a known queue; None if the app does not know it."""
        lowered = queue.lower()
        name = self._names.get(lowered)
        if name not in self._classes:
            name = self._aliases.get(lowered) or self._class_paths.get(queue) or name
        if name is not None:
            self._found[queue] = name
        return name

    def known(self, queue: Queue) -> str:
        """As `resolve_or_add`; an unknown name is always refused."""
        if isinstance(queue, str) and self.find(queue) is None:
            raise self.unknown(queue)
        return self.resolve_or_add(queue)

    def nearest(self, queue: str) -> str | None:
        """The known name or alias that is most like an unknown name."""
        return nearest(queue, [*self._aliases, *self._names.values()])

    def unknown(self, queue: str) -> UnknownQueue:
        """The error for a name that the app does not know."""
        guess = self.nearest(queue)
        advice = f"did you mean {guess!r}?" if guess else f"known ones: {', '.join(sorted(self._names.values()))}."
        return UnknownQueue(
            f"no queue {queue!r} is known; {advice} A new queue becomes known when the setting queues, a lane, "
            "a handler or a queue class names it"
        )

    def classes(self, names: Iterable[str]) -> list[QueueClass]:
        """The registered classes of these queues, each once."""
        return [self._classes[name] for name in dict.fromkeys(names) if name in self._classes]


def _name_of(queue: Any) -> str:
    name: str = queue.name
    return name


def _class_of(queue: Any) -> type:
    return queue if isinstance(queue, type) else type(queue)


def _instance_of(cls: Any) -> Any:
    """An instance of a queue class, so that its hooks have a `self`."""
    try:
        return cls()
    except TypeError as error:
        raise InvalidHandler(f"queue class {cls.__qualname__!r} cannot be made: {error}; pass an instance") from error
