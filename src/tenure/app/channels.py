"""Channels: the backends of an app, each opened once, with the wire that seals and opens its messages."""

import logging
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from tenure.app.sealer import Channel
from tenure.backends.contract import Backend, InProcess, Lease, Verdict
from tenure.backends.metered import meter
from tenure.backends.opening import open_backend
from tenure.backends.sync import SyncBackend
from tenure.backends.upkeep import Embedded, Keyed
from tenure.clock import Clock
from tenure.errors import SettingsError, TenureError
from tenure.metrics.collector import Collector, Guarded, NoCollector
from tenure.metrics.memory import MemoryCollector
from tenure.settings import Settings
from tenure.wire.envelope import Wire
from tenure.wire.keyfile import load_or_create
from tenure.wire.signing import Key, Ring, new_key, parse_key

logger = logging.getLogger(__name__)

_DEVELOPMENT_SECRET = b"a secret that is none: for development"


class Channels:
    """Opened on first use; `run_now` is what the sync backend does with a job."""

    def __init__(
        self, settings: Settings, clock: Clock, run_now: Callable[[Lease, Channel], Verdict], collector: Collector
    ) -> None:
        self._settings = settings
        self._collector = collector if type(collector) in (MemoryCollector, NoCollector) else Guarded(collector)
        self._clock = clock
        self._run_now = run_now
        self._open: dict[str, Channel] = {}
        self._opening = threading.Lock()

    def url(self, backend: str | None) -> str:
        """The URL that a name from the settings stands for, or the one that was given."""
        return self._settings.url if backend is None else self._settings.backends.get(backend, backend)

    def get(self, backend: str | None = None) -> Channel:
        url = self.url(backend)
        with self._opening:
            if url not in self._open:
                self._open[url] = self._opened(url)
            return self._open[url]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].backend.close()

    def _opened(self, url: str) -> Channel:
        backend = open_backend(url, self._clock)
        if type(self._collector) is not NoCollector:
            meter(backend, urlsplit(url).scheme, self._collector)
        try:
            ring = self._ring(backend)
            channel = Channel(backend, Wire(ring, self._settings.max_bytes, self._settings.audience))
        except TenureError:
            backend.close()
            raise
        if isinstance(backend, Keyed):
            backend.mark_with(ring)
        if isinstance(backend, SyncBackend):
            backend.runs_with(lambda lease: self._run_now(lease, channel))
        return channel

    def _ring(self, backend: Backend) -> Ring:
        if self._settings.keys:
            keys = [parse_key(text) for text in self._settings.keys]
        elif isinstance(backend, Embedded):
            keys = [load_or_create(backend.key_path)]
        elif isinstance(backend, InProcess):
            keys = [new_key()]
        elif self._settings.environment == "development":
            logger.warning("no key is set: messages are signed with a key that everybody knows")
            keys = [Key("development", _DEVELOPMENT_SECRET)]
        else:
            raise SettingsError(
                "messages on a shared backend must be signed, and no key is set; make one with `tenure key new` "
                "and put it into TENURE_KEYS (or TENURE_KEYS_FILE) of every producer and worker"
            )
        return Ring(keys, verify=self._settings.verify, scopes=self._settings.scopes)
