"""Shelves: who keeps what is known of jobs and workers: the backend, or the store beside a broker that does not."""

from dataclasses import dataclass
from typing import NoReturn, Protocol

from tenure.backends.asking import Inspectable, JobRecord, Listable
from tenure.backends.chronicle import Chronicle, Chronicled
from tenure.backends.contract import Backend
from tenure.backends.upkeep import Roster, Statistical
from tenure.errors import BackendError


class Finder(Protocol):
    def find(self, id: str) -> JobRecord | None: ...


@dataclass(frozen=True, slots=True)
class Shelves:
    """What the backend keeps is asked of it; `store` is where guards live, None where nothing says where."""

    backend: Backend
    store: object | None

    @property
    def chronicle(self) -> Chronicle | None:
        """Where workers write down what became of jobs; None where the backend does that itself, or nobody."""
        if isinstance(self.backend, Inspectable) or not isinstance(self.store, Chronicled):
            return None
        return self.store.chronicle

    @property
    def finder(self) -> Finder:
        if isinstance(self.backend, Inspectable):
            return self.backend
        return self.chronicle or _nobody("results or records of jobs")

    @property
    def listing(self) -> Listable:
        if isinstance(self.backend, Listable):
            return self.backend
        return self.chronicle or _nobody("lists of jobs")

    @property
    def roster(self) -> Roster:
        for place in (self.backend, self.store):
            if isinstance(place, Roster):
                return place
        return _nobody("roster of workers")

    @property
    def books(self) -> Statistical:
        for place in (self.backend, self.store):
            if isinstance(place, Statistical):
                return place
        return _nobody("statistics")


def _nobody(what: str) -> NoReturn:
    raise BackendError(
        f"this backend keeps no {what}; name a place for them with the setting store, a database or Redis that all "
        'workers share, such as "redis://host" or "postgresql://host/name"'
    )
