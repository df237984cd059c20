"""Registry: which handlers exist, and which queue may run which."""

from collections.abc import Iterable, Iterator, Mapping

from tenure.definition.handler import Handler
from tenure.definition.middleware import Middleware
from tenure.definition.passage import Breakers, always_closed
from tenure.errors import ForbiddenHandler, InvalidHandler, UnknownHandler


class Registry:
    """Keys to handlers; a queue with an allowlist runs only what it names, and an empty allowlist denies.

    A handler of the app's own takes the place of the built-in one with the same key.
    """

    def __init__(
        self,
        allowlists: Mapping[str, Iterable[str]] | None = None,
        builtins: Iterable[Handler] = (),
        breakers: Breakers = always_closed,
    ) -> None:
        """`breakers` are those that all its handlers reach through their context."""
        self._own: dict[str, Handler] = {}
        self._breakers = breakers
        self._builtins = {handler.key: handler.reaching(breakers) for handler in builtins}
        self._wrapped = dict(self._builtins)
        self._middleware: list[Middleware] = []
        self._allowlists = {queue: frozenset(keys) for queue, keys in (allowlists or {}).items()}

    def add(self, handler: Handler) -> None:
        if handler.key in self._own:
            raise InvalidHandler(
                f"a handler is already registered under {handler.key!r}; pass name=... to give this one another key"
            )
        self._own[handler.key] = handler = handler.reaching(self._breakers)
        self._wrapped[handler.key] = handler.inside(self._middleware)

    def use(self, middleware: Middleware) -> None:
        """Wrap every handler, those there are and those to come."""
        self._middleware.append(middleware)
        plain = {**self._builtins, **self._own}
        self._wrapped = {key: handler.inside(self._middleware) for key, handler in plain.items()}

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
        """The handler for a key on this queue, or the error that says why not."""
        allowed = self._allowlists.get(queue)
        if allowed is not None and key not in allowed:
            raise ForbiddenHandler(
                f"queue {queue!r} does not allow handler {key!r}; its allowlist is {sorted(allowed)}"
            )
        return self.get(key)

    def keys(self) -> list[str]:
        """Those of all handlers, built-in ones too."""
        return sorted(self._wrapped)

    def __contains__(self, key: str) -> bool:
        return key in self._wrapped

    def __iter__(self) -> Iterator[Handler]:
        return (self._wrapped[key] for key in self._own)
