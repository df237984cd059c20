"""Settings: all settings with their defaults, and how they are loaded."""

from tenure.settings.loader import PREFIX, load
from tenure.settings.values import LaneSettings, Retention, Settings

__all__ = ["PREFIX", "LaneSettings", "Retention", "Settings", "load"]
