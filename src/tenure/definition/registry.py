"""Registry: which handlers exist and which a queue may run; Queues: names, aliases and classes of queues."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from tenure.definition.context import Breakers, always_closed
from tenure.definition.handler import Handler, Middleware
from tenure.definition.job import check_queue
from tenure.errors import ForbiddenHandler, InvalidHandler, InvalidJob, UnknownHandler


class Registry:
    """Handlers by key. A queue with an allowlist runs only the handlers in it; an empty allowlist denies all.

    A handler of the app replaces the built-in handler with the same key.
    """

    def __init__(
        self,
        allowlists: Mapping[str, Iterable[str]] | None = None,
        builtins: Iterable[Handler] = (),
        breakers: Breakers = always_closed,
    ) -> None:
        """All handlers reach `breakers` through their context."""
        self._own: dict[str, Handler] = {}
        self._breakers = breakers
        self._builtins = {handler.key: handler.with_breakers(breakers) for handler in builtins}
        self._wrapped = dict(self._builtins)
        self._middleware: list[Middleware] = []
        self._allowlists = {queue: frozenset(keys) for queue, keys in (allowlists or {}).items()}

    def add(self, handler: Handler) -> None:
        if handler.key in self._own:
            raise InvalidHandler(
                f"a handler is already registered under {handler.key!r}; pass name=... to give this one another key"
            )
        self._own[handler.key] = handler = handler.with_breakers(self._breakers)
        self._wrapped[handler.key] = handler.with_middleware(self._middleware)

    def use(self, middleware: Middleware) -> None:
        """Wrap every handler: the registered ones, and those that are registered later."""
        self._middleware.append(middleware)
        unwrapped = {**self._builtins, **self._own}
        self._wrapped = {key: handler.with_middleware(self._middleware) for key, handler in unwrapped.items()}

    def get(self, key: str) -> Handler:
        try:
            return self._wrapped[key]
        except KeyError:
            known = ", ".join(sorted(self._own)) or "none"
            raise UnknownHandler(
                f"no handler is registered under {key!r} (registered: {known}); "
                "register it, or import the module that does"
            ) from None

    def resolve(self, key: str, queue: str) -> Handler:
        """The handler with this key, if this queue may run it."""
        allowed = self._allowlists.get(queue)
        if allowed is not None and key not in allowed:
            raise ForbiddenHandler(
                f"queue {queue!r} does not allow handler {key!r}; its allowlist is {sorted(allowed)}"
            )
        return self.get(key)

    def keys(self) -> list[str]:
        """The keys of all handlers, built-in ones included."""
        return sorted(self._wrapped)

    def __contains__(self, key: str) -> bool:
        return key in self._wrapped

    def __iter__(self) -> Iterator[Handler]:
        return (self._wrapped[key] for key in self._own)


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
        """The registered classes of these queues, each once."""
        return [self._classes[name] for name in dict.fromkeys(names) if name in self._classes]
