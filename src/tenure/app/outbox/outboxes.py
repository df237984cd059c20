"""Outboxes: the outboxes of the setting `outboxes`, for the relay, for commands and for checks."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from tenure.app.open_backends import OpenBackend, OpenBackends
from tenure.app.outbox.relay import Moved, OutboxRelay
from tenure.backends.sql.outbox.database import OutboxDatabase, OutboxDepth, open_outbox
from tenure.backends.url import shown_url
from tenure.errors import SettingsError, UnknownBackend
from tenure.events import Listeners
from tenure.suggestions import nearest
from tenure.worker.roles import RoleThread


class Outboxes:
    """`urls` are those of the setting, or of a command."""

    def __init__(self, urls: Sequence[str], backends: OpenBackends, listeners: Listeners) -> None:
        self.urls = tuple(urls)
        self._backends = backends
        self._listeners = listeners

    def on(self, *urls: str) -> "Outboxes":
        """The outboxes of other databases."""
        return Outboxes(urls, self._backends, self._listeners)

    def relay(self) -> "OutboxRelays":
        """What empties the outboxes until it is stopped; a worker runs it as a role."""
        return OutboxRelays(self._relays())

    def move(self) -> Moved:
        """Move the jobs that are there now to their backends; raises if a database or a backend does not answer."""
        moved, errors = Moved(), []
        for relay in self._relays():
            moved.add(relay.drain())
            errors += [] if relay.last_error is None else [relay.last_error]
        if errors:
            raise errors[0]
        return moved

    @contextmanager
    def databases(self) -> Iterator[Iterator[OutboxDatabase]]:
        """The outboxes, each opened when it is its turn."""

        def opened() -> Generator[OutboxDatabase, None, None]:
            for url in self._checked():
                with closing(open_outbox(url, self._backends.place.clock)) as database:
                    yield database

        with closing(opened()) as found:
            yield found

    def depths(self) -> list[tuple[str, OutboxDepth]]:
        """The name of each outbox and what waits there, one for each backend; an empty outbox has one of 0 jobs."""
        found: list[tuple[str, OutboxDepth]] = []
        with self.databases() as databases:
            for database in databases:
                database.check()
                found += [(database.name, depth) for depth in database.depths() or [OutboxDepth("")]]
        return found

    def _relays(self) -> list[OutboxRelay]:
        return [OutboxRelay(shown_url(url), self._opener(url), self._find_backend, self._listeners)
                for url in self._checked()]  # fmt: skip

    def _opener(self, url: str) -> Callable[[], OutboxDatabase]:
        return lambda: open_outbox(url, self._backends.place.clock)

    def _checked(self) -> tuple[str, ...]:
        if not self.urls:
            raise SettingsError(
                "no outbox is known: name the databases of your application in the setting outboxes, or with the "
                "option --database"
            )
        return self.urls

    def _find_backend(self, name: str | None) -> OpenBackend:
        known = self._backends.place.settings.backends
        if name is not None and name not in known:
            guess = nearest(name, known)
            advice = f"did you mean {guess!r}?" if guess else "add it there"
            raise UnknownBackend(f"no backend {name!r} is in the setting backends of the relay; {advice}")
        return self._backends.get(name)


class OutboxRelays:
    """The relays of several outboxes, as one role: each has a thread of its own."""

    def __init__(self, relays: Iterable[OutboxRelay]) -> None:
        self._relays = list(relays)
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self.ready = threading.Event()

    @property
    def names(self) -> list[str]:
        return [relay.name for relay in self._relays]

    @property
    def moved(self) -> Moved:
        total = Moved()
        for relay in self._relays:
            total.add(relay.moved)
        return total

    def run(self) -> None:
        threads = [RoleThread(relay, self._fail) for relay in self._relays]
        for thread in threads:
            thread.start()
        self.ready.set()
        self._stopping.wait()
        for relay in self._relays:
            relay.stop()
        for thread in threads:
            thread.stop()
        if self._error is not None:
            raise self._error

    def stop(self, grace: float = 0.0) -> None:  # noqa: ARG002 - a batch is short: it is finished
        """End after the batch that is being moved."""
        self._stopping.set()

    def silence(self) -> float:
        """Seconds since the last beat of the slowest relay."""
        return max((relay.silence() for relay in self._relays), default=0.0)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._stopping.set()
