"""Pool: the connections of one backend; a lease belongs to the connection that reserved it."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tenure.backends.beanstalk import protocol
from tenure.backends.beanstalk.connection import Connection
from tenure.backends.beanstalk.counting import figure
from tenure.backends.contract import Lease
from tenure.backends.facts import Facts
from tenure.errors import BackendUnavailable


class Held(NamedTuple):
    """A lease with the facts of its message; `expires` is monotonic time."""

    lease: Lease
    facts: Facts
    expires: float


class Site:
    """A connection and the leases that live and die with it, by the server's job id."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.held: dict[int, Held] = {}


class Pool:
    """Connections are opened as threads need them at once, and kept."""

    def __init__(self, address: tuple[str, int], patience: float) -> None:
        self._address = address
        self._patience = patience
        self._numbers = itertools.count(1)
        self._sites: dict[int, Site] = {}
        self._changing = threading.Lock()
        self._closed = False
        self._largest: int | None = None

    @contextmanager
    def site(self, *, unburdened: bool = False) -> Iterator[Site]:
        """A site for this thread alone; an `unburdened` one holds no leases, so that it may wait."""
        site = self._pick(lambda each: not (unburdened and each.held)) or self._open()
        try:
            yield site
        finally:
            self._done(site)

    @contextmanager
    def site_of(self, number: int) -> Iterator[Site | None]:
        """The site with this number, once no other thread uses it; None when it is gone with its leases."""
        site = self._sites.get(number)
        if site is None:
            yield None
            return
        site.connection.lock.acquire()
        try:
            yield site if site.connection.is_open else None
        finally:
            self._done(site)

    @contextmanager
    def private(self) -> Iterator[Connection]:
        """A connection for one purpose, closed in the end."""
        connection = self._connect()
        try:
            yield connection
        finally:
            connection.close()

    def largest_job(self) -> int:
        """The most bytes that the server takes for one job."""
        if self._largest is None:
            with self.site() as site:
                (stats,) = site.connection.exchange([protocol.STATS])
                self._largest = figure(stats.data, b"max-job-size")
        return self._largest

    def held(self) -> list[tuple[int, int, Held]]:
        """Every lease, with the number of its site and its job id."""
        sites = list(self._sites.items())
        return [(number, job, held) for number, site in sites for job, held in list(site.held.items())]

    def close(self) -> None:
        self._closed = True
        with self._changing:
            for site in self._sites.values():
                site.connection.close()
            self._sites.clear()

    def _pick(self, suits: Callable[[Site], bool]) -> Site | None:
        with self._changing:
            for number, site in list(self._sites.items()):
                if not suits(site) or not site.connection.lock.acquire(blocking=False):
                    continue
                if suits(site) and not site.connection.is_stale():
                    return site
                if suits(site):
                    del self._sites[number]
                    site.connection.close()
                site.connection.lock.release()
        return None

    def _open(self) -> Site:
        site = Site(self._connect())
        site.connection.lock.acquire()
        with self._changing:
            self._sites[site.connection.number] = site
        return site

    def _connect(self) -> Connection:
        if self._closed:
            raise BackendUnavailable("this backend is closed")
        return Connection(self._address, next(self._numbers), self._patience)

    def _done(self, site: Site) -> None:
        if not site.connection.is_open:
            with self._changing:
                self._sites.pop(site.connection.number, None)
        site.connection.lock.release()
