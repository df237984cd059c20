"""Settings: what can be set, and where it is read from."""

from tenure.settings.loading import PREFIX, load
from tenure.settings.values import LaneSettings, Retention, Settings

__all__ = ["PREFIX", "LaneSettings", "Retention", "Settings", "load"]
