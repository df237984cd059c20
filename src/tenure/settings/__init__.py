"""Settings: all settings with their defaults, and how they are loaded."""

from tenure.settings.environment import PREFIX, warn_of_unknown
from tenure.settings.loader import load
from tenure.settings.values import LaneSettings, Retention, Settings

__all__ = ["PREFIX", "LaneSettings", "Retention", "Settings", "load", "warn_of_unknown"]
