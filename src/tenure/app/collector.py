"""The metrics collector of an app: in memory, that of OpenTelemetry, the user's own, or none."""

import logging
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tenure.app.tracing import MISSING_PACKAGE
from tenure.backends.metered import BackendMeter, NewMeter
from tenure.errors import SettingsError
from tenure.events import Listener
from tenure.metrics.collector import Collector, MemoryCollector, NoCollector, SafeCollector
from tenure.metrics.counters import WorkerCounters

logger = logging.getLogger(__name__)

OPEN_TELEMETRY = "opentelemetry"
_METHODS = ("increment", "observe", "snapshot")


def own_collector(arguments: dict[str, Any]) -> Collector | None:
    """A collector given as an object, removed from the arguments because settings are texts and numbers only."""
    given = arguments.get("metrics")
    if given is None or isinstance(given, str):
        return None
    return _checked(arguments.pop("metrics"), repr(type(given).__qualname__))


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where an app counts: its collector, the meters of its backends, and the listeners of its workers."""

    collector: Collector
    meters: tuple[NewMeter, ...] = ()
    listeners: tuple[Listener, ...] = ()


def find_measurement(setting: str | None, own: Collector | None) -> Measurement:
    """What the collector of the caller needs, else that which the setting names."""
    if setting == OPEN_TELEMETRY and own is None:
        return _open_telemetry()
    collector = own or find_collector(setting)
    if type(collector) is NoCollector:
        return Measurement(collector)
    safe = collector if type(collector) is MemoryCollector else SafeCollector(collector)
    return Measurement(collector, (partial(BackendMeter, collector=safe),), (WorkerCounters(collector),))


def find_collector(setting: str | None) -> Collector:
    """The collector that the setting names: a word, a URL, or `module:attribute` of an object or a class."""
    if setting in (None, "none"):
        return NoCollector()
    if setting == "memory":
        return MemoryCollector()
    if setting.startswith("statsd://"):
        from tenure.metrics.statsd import StatsD

        return StatsD.from_url(setting)
    module, separator, attribute = setting.partition(":")
    if not separator:
        raise SettingsError(
            f"the setting metrics must be memory, {OPEN_TELEMETRY}, none, statsd://host:port or module:attribute, "
            f"not {setting!r}"
        )
    try:
        found = getattr(import_module(module), attribute)
        return _checked(found() if isinstance(found, type) else found, repr(setting))
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"cannot load the collector {setting!r} of the setting metrics: {type(error).__qualname__}: {error}"
        ) from error


def _open_telemetry() -> Measurement:
    """A missing package is only logged, so that jobs run without metrics.

    The backends have no counters of ours beside those of the conventions, which would take 30 µs of each enqueue.
    """
    try:
        from tenure.app.telemetry import OpenTelemetryCollector, ProcessMetrics, new_meter
    except ImportError:
        logger.warning(MISSING_PACKAGE, "metrics")
        return Measurement(NoCollector())
    collector = OpenTelemetryCollector()
    return Measurement(collector, (new_meter(),), (WorkerCounters(collector), ProcessMetrics()))


def _checked(collector: Any, name: str) -> Collector:
    missing = [method for method in _METHODS if not callable(getattr(collector, method, None))]
    if missing:
        raise SettingsError(f"the collector {name} has no {' and no '.join(missing)}; it needs {', '.join(_METHODS)}")
    found: Collector = collector
    return found
