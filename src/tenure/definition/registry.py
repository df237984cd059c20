"""Registry: which handlers exist, and which queue may run which."""

from collections.abc import Iterable, Iterator, Mapping

from tenure.definition.handler import Handler
from tenure.errors import ForbiddenHandler, InvalidHandler, UnknownHandler


class Registry:
    """Keys to handlers; a queue with an allowlist runs only what it names, and an empty allowlist denies.

    A handler of the app's own takes the place of the built-in one with the same key.
    """

    def __init__(self, allowlists: Mapping[str, Iterable[str]] | None = None, builtins: Iterable[Handler] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        self._builtins = {handler.key: handler for handler in builtins}
        self._allowlists = {queue: frozenset(keys) for queue, keys in (allowlists or {}).items()}

    def add(self, handler: Handler) -> None:
        if handler.key in self._handlers:
            raise InvalidHandler(
                f"a handler is already registered under {handler.key!r}; pass name=... to give this one another key"
            )
        self._handlers[handler.key] = handler

    def get(self, key: str) -> Handler:
        found = self._handlers.get(key) or self._builtins.get(key)
        if found is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            raise UnknownHandler(
                f"no handler is registered under {key!r} (registered: {known}); "
                "register it, or import the module that does"
            )
        return found

    def resolve(self, key: str, queue: str) -> Handler:
        """The handler for a key on this queue, or the error that says why not."""
        allowed = self._allowlists.get(queue)
        if allowed is not None and key not in allowed:
            raise ForbiddenHandler(
                f"queue {queue!r} does not allow handler {key!r}; its allowlist is {sorted(allowed)}"
            )
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._handlers or key in self._builtins

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())
