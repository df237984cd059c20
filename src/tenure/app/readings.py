"""Readings: what a metrics page of an app tells: what this process counted, and how the queues are."""

import logging
import threading
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import structs

from tenure.app.history import read_signals
from tenure.app.tenure import Tenure
from tenure.backends.asking import Counted
from tenure.backends.metered import meter
from tenure.errors import BackendError
from tenure.metrics.counters import WorkerCounters, begin
from tenure.metrics.gauges import Gauge, backend_is, gauges
from tenure.metrics.memory import MemoryCollector
from tenure.metrics.snapshot import Snapshot, taken

logger = logging.getLogger(__name__)

_FRESH = 5.0  # seconds: however often somebody reads
_SHARE = 50  # of the time goes by until the backend is asked again: what takes long is asked seldom


class Readings:
    """Taken whenever somebody looks; queues are looked at again only after a while."""

    def __init__(self, app: Tenure, queues: Iterable[str] = ()) -> None:
        """`queues` are told of from the start, with counters of 0."""
        self._app = app
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._gauges: tuple[Gauge, ...] = ()
        self._collector = _collector(app)
        begin(self._collector, queues)

    def snapshot(self, *, queues: bool = True) -> Snapshot:
        """Without `queues`, of this process alone."""
        found = taken(self._collector)
        return structs.replace(found, gauges=self._queues()) if queues else found

    def _queues(self) -> tuple[Gauge, ...]:
        with self._lock:
            begun = time.monotonic()
            if begun >= self._look_at:
                self._gauges = self._look()
                now = time.monotonic()
                self._look_at = now + max(_FRESH, _SHARE * (now - begun))
            return self._gauges

    def _look(self) -> tuple[Gauge, ...]:
        try:
            backend = self._app.backend
            found = read_signals(self._app.shelves(), self._app.clock) if isinstance(backend, Counted) else []
        except BackendError as error:
            logger.warning("the metrics page lacks the queues: %s", error)
            return (backend_is(False),)
        return (backend_is(True), *gauges(found))


def _collector(app: Tenure) -> MemoryCollector:
    """That of the app, or one beside it where the app has another kind, or none."""
    if isinstance(app.metrics, MemoryCollector):
        return app.metrics
    collector = MemoryCollector()
    app.listen(WorkerCounters(collector))
    meter(app.backend, urlsplit(app.settings.url).scheme, collector)
    return collector
