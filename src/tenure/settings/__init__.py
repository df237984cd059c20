"""Settings: all settings with their defaults, and how they are loaded."""

from tenure.settings.environment import PREFIX
from tenure.settings.loader import load, log_environment
from tenure.settings.queue_names import named_queues
from tenure.settings.values import LaneSettings, Retention, Settings

__all__ = ["PREFIX", "LaneSettings", "Retention", "Settings", "load", "log_environment", "named_queues"]
