"""The metrics collector of an app: in memory, the user's own, or none."""

from importlib import import_module
from typing import Any

from tenure.errors import SettingsError
from tenure.metrics.collector import Collector, MemoryCollector, NoCollector

_METHODS = ("increment", "observe", "snapshot")


def own_collector(arguments: dict[str, Any]) -> Collector | None:
    """A collector given as an object, removed from the arguments because settings are texts and numbers only."""
    given = arguments.get("metrics")
    if given is None or isinstance(given, str):
        return None
    return _checked(arguments.pop("metrics"), repr(type(given).__qualname__))


def find_collector(setting: str | None) -> Collector:
    """The collector that the setting names: `memory`, `none`, a URL, or `module:attribute` of an object or a class."""
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
            f"the setting metrics must be memory, none, statsd://host:port or module:attribute, not {setting!r}"
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


def _checked(collector: Any, name: str) -> Collector:
    missing = [method for method in _METHODS if not callable(getattr(collector, method, None))]
    if missing:
        raise SettingsError(f"the collector {name} has no {' and no '.join(missing)}; it needs {', '.join(_METHODS)}")
    found: Collector = collector
    return found
