"""Queue classes: a name, aliases, and hooks a worker calls around its life on that queue."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from tenure.definition.options import check_queue
from tenure.errors import InvalidJob


@runtime_checkable
class QueueClass(Protocol):
    """A class or instance with a `name`; `aliases`, `setup(worker)` and `refresh(worker)` are optional.

    `setup` runs once when a worker starts and `refresh` every refresh interval, in threads beside the jobs.
    Both are given the worker's id and may be async; what they raise is logged and does not stop the worker.
    """

    name: str


class Queues:
    """Resolves what people call a queue (a name, an alias in any case, a class or an instance) to its name."""

    def __init__(self) -> None:
        self._classes: dict[str, QueueClass] = {}
        self._aliases: dict[str, str] = {}

    def add(self, queue: QueueClass) -> None:
        name = check_queue(queue.name)
        self._classes[name] = queue
        for alias in getattr(queue, "aliases", ()):
            self.alias(alias, name)

    def alias(self, alias: str, queue: str) -> None:
        taken = self._aliases.setdefault(alias.lower(), check_queue(queue))
        if taken != queue:
            raise InvalidJob(f"the alias {alias!r} already stands for queue {taken!r}; choose another for {queue!r}")

    def resolve(self, queue: str | QueueClass) -> str:
        if not isinstance(queue, str):
            return check_queue(queue.name)
        if queue in self._classes:
            return queue
        return self._aliases.get(queue.lower()) or check_queue(queue)

    def classes(self, names: Iterable[str]) -> list[QueueClass]:
        """The registered classes among these queue names, each once."""
        return [self._classes[name] for name in dict.fromkeys(names) if name in self._classes]
