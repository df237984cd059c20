"""PageCache: pages that were rendered a moment ago, so that many viewers cost little more than one."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

FRESH_SECONDS = 1.9  # a little less than the shortest refresh, so that a viewer never gets the same page twice
_STALE_SECONDS = 15.0  # how old a page may be that is shown while a newer one is made
_MAX_PAGES = 256
_MAX_BYTES = 33_554_432


class Rendered(NamedTuple):
    """A page as HTML, its status and ETag, and the address inside the dashboard to which it leads instead, if any."""

    body: bytes
    status: int = 200
    etag: str = ""
    redirect: str | None = None


@dataclass(frozen=True)
class _Entry:
    page: Rendered
    made_at: float
    changes: int


@dataclass
class PageCache:
    """Keeps few pages for a short time. A change that a user makes drops them all; only one thread makes a page."""

    now: Callable[[], float] = time.monotonic
    renders: int = 0
    _entries: OrderedDict[Hashable, _Entry] = field(default_factory=OrderedDict)
    _making: dict[Hashable, "Future[Rendered]"] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _bytes: int = 0

    def get(self, key: Hashable, changes: int, make: Callable[[], Rendered]) -> Rendered:
        """The page of this key; `changes` counts the actions so far, and a page from before the last is not used."""
        with self._lock:
            known = self._entries.get(key)
            usable = known if known is not None and known.changes == changes else None
            if usable is not None and self._age(usable) < FRESH_SECONDS:
                self._entries.move_to_end(key)
                return usable.page
            making = self._making.get((key, changes))
            if making is None:
                own = self._making[key, changes] = Future()
        if making is None:
            return self._make(key, changes, make, own)
        if usable is not None and self._age(usable) < _STALE_SECONDS:
            return usable.page
        return making.result()

    def fresh(self, key: Hashable, changes: int) -> Rendered | None:
        """The page of this key, if it is fresh; makes none."""
        known = self._entries.get(key)
        is_fresh = known is not None and known.changes == changes and self._age(known) < FRESH_SECONDS
        return known.page if known is not None and is_fresh else None

    def _make(self, key: Hashable, changes: int, make: Callable[[], Rendered], made: "Future[Rendered]") -> Rendered:
        self.renders += 1
        started = self.now()
        try:
            page = make()
        except BaseException as error:
            made.set_exception(error)
            raise
        else:
            made.set_result(page)
            with self._lock:
                self._store(key, _Entry(page, started, changes))
            return page
        finally:
            with self._lock:
                del self._making[key, changes]

    def _store(self, key: Hashable, entry: _Entry) -> None:
        before = self._entries.pop(key, None)
        self._bytes += len(entry.page.body) - (len(before.page.body) if before else 0)
        self._entries[key] = entry
        while len(self._entries) > _MAX_PAGES or self._bytes > _MAX_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[1].page.body)

    def _age(self, entry: _Entry) -> float:
        return self.now() - entry.made_at
