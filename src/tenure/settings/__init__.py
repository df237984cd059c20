"""Settings: all settings with their defaults, how they are loaded, and where each came from."""

from tenure.settings.environment import PREFIX
from tenure.settings.loader import load, load_with_origins, log_environment
from tenure.settings.origins import origin_of
from tenure.settings.queue_names import named_queues
from tenure.settings.values import (
    DashboardSettings,
    DashboardToken,
    DashboardUser,
    LaneSettings,
    Retention,
    Settings,
)

__all__ = [
    "PREFIX",
    "DashboardSettings",
    "DashboardToken",
    "DashboardUser",
    "LaneSettings",
    "Retention",
    "Settings",
    "load",
    "load_with_origins",
    "log_environment",
    "named_queues",
    "origin_of",
]
