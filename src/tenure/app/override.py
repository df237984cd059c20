"""`app.override`: let an app work with another URL and another clock for the length of a `with` block.

The block exchanges the place of the app (`open_backends.Place`). Handlers, schedules and listeners belong to the app
and stay; backends, the store, the URL and the clock belong to the place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from tenure.app.open_backends import OpenBackends, Place
from tenure.clock import Clock
from tenure.errors import SettingsError
from tenure.settings import Settings

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure
    from tenure.worker.lane import Lane

T = TypeVar("T", bound="Tenure")
_OUTSIDE_WAYS = frozenset({"mail", "webhook"})


@dataclass(frozen=True, slots=True)
class Override:
    """The arguments of `app.override`."""

    url: str | None
    clock: Clock | None
    eager: bool
    backends: Mapping[str, str]
    store: str | None

    def __post_init__(self) -> None:
        if self.eager and self.url is not None:
            raise SettingsError(
                "an override with eager=True runs jobs in enqueue and has no URL: leave out url or eager"
            )
        if self.url is None and not self.eager and self.clock is None:
            raise SettingsError("say what to override: url='memory://', eager=True, or a clock")
        if self.url is None and not self.eager and (self.backends or self.store is not None):
            raise SettingsError("an override that names backends or a store needs a url too, such as 'memory://'")

    def place(self, before: Place) -> Place:
        """The place to work in; without a URL it is opened with the URLs of the place before."""
        settings = structs.replace(before.settings, app=None, execution_log=None)
        url = "sync://" if self.eager else self.url
        if url is not None:
            backends = {**dict.fromkeys(settings.backends, url), **self.backends}
            store = self.store or ("memory://" if self.eager else None)  # sync:// keeps no ledger and no results itself
            # A relay must not move the jobs of a real outbox to the backend of a test.
            settings = structs.replace(settings, url=url, backends=backends, store=store, outboxes=())
        redirects = before.redirects or url is not None
        return Place(settings, self.clock or before.clock, is_override=True, redirects=redirects)


@contextmanager
def overridden(app: T, backends: OpenBackends, wanted: Override) -> Iterator[T]:
    """Exchange the place of the app, and undo it at the end, also after an error."""
    before, settings, muted = backends.place, app.settings, app.notifications.muted
    if any(worker.is_running for worker in before.workers):
        raise SettingsError(
            "a worker of this app is running and would go on with the real backend; stop it before the override begins"
        )
    place = wanted.place(before)
    app.notifications.close()  # notices of earlier jobs belong to the place before
    app.waiters.close()
    try:
        backends.place, app.settings, app.clock = place, place.settings, place.clock
        app.notifications.muted = muted | _OUTSIDE_WAYS
        yield app
    finally:
        try:
            app.notifications.close()  # a notice may enqueue a job, which belongs to this place
            app.waiters.close()
            place.close()
        finally:
            backends.place, app.settings, app.clock = before, settings, before.clock
            app.notifications.muted = muted


def follow(app: "Tenure", backends: OpenBackends, current: Callable[[], "Placement | None"]) -> Callable[[], None]:
    """Before each use of a backend, work where `current` says; None: there has been no change.

    What the app has opened is closed then. The function that is returned does the same at once. Inside `app.override`
    the settings of the override hold.
    """

    def move() -> None:
        if backends.place.is_override or (found := current()) is None:
            return
        before = backends.place
        backends.place, app.settings = Place(found.settings, before.clock, redirects=found.is_test), found.settings
        app.waiters.close()
        before.close()

    backends.before_use = move
    move()
    return move


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an app works: in a test it reaches no backend that these settings do not name."""

    settings: Settings
    is_test: bool = False


def location_for_children(place: Place, lanes: "Sequence[Lane]", location: str | None) -> str | None:
    """Where the child processes of a worker import the app; None in an override, where no child may start."""
    if not place.is_override:
        return location
    runners = sorted({lane.runner for lane in lanes} - {"inline"})
    if runners:
        raise SettingsError(
            f"the runner {runners[0]!r} is refused inside app.override(): its child processes would import the app "
            "anew and use the real backend; run the worker with the runner inline"
        )
    return None
