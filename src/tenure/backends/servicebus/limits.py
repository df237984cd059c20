"""Limits: what the namespace says about its queues to those who may manage them, and what that means for us.

The service buries a message itself after so many deliveries. Each copy of ours begins anew, so only holders that
vanish count; what they did is written into a fresh copy before the service would lose patience.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from azure.core.exceptions import AzureError

from tenure.backends.upkeep import Fact
from tenure.definition.job import DEFAULT_MAX_CRASHES

logger = logging.getLogger(__name__)

UNKNOWN = 5  # deliveries that every sensible queue allows; ten unless somebody changed it
_NEEDED = 2  # fewer, and the service buries a job as soon as one worker has vanished with it


class Limits(NamedTuple):
    """As far as they are known; `lock` is in seconds."""

    deliveries: int | None = None
    lock: float | None = None
    drops_duplicates: bool | None = None

    def is_worn(self, deliveries: int) -> bool:
        """Whether a message that was delivered so often in vain must get a fresh copy before it is leased again."""
        return deliveries >= max(1, (self.deliveries or UNKNOWN) - 1)


def read(admin: Callable[[], Any] | None, name: str) -> Limits | None:
    """What the namespace tells of a queue; None where we may not ask."""
    if admin is None:
        return None
    try:
        with admin() as client:
            found = client.get_queue(name)
    except (AzureError, OSError, ValueError) as error:
        logger.info("the limits of %r cannot be read, which needs the right Manage: %s", name, error)
        return None
    lock = found.lock_duration
    seconds = lock.total_seconds() if isinstance(lock, timedelta) else None
    return Limits(found.max_delivery_count, seconds, found.requires_duplicate_detection)


def told(name: str, limits: Limits | None) -> Fact:
    """What `tenure health` says about a queue."""
    if limits is None or limits.deliveries is None:
        return Fact(f"queue {name}", "its limits cannot be read, which needs the right Manage for the namespace")
    duplicates = "on" if limits.drops_duplicates else "off"
    text = (
        f"buries a message after {limits.deliveries} deliveries in vain, locks it for {limits.lock or 0:g} s, "
        f"duplicate detection is {duplicates}"
    )
    if limits.deliveries < _NEEDED:
        text += (
            f"; a job dies with its first worker instead of after {DEFAULT_MAX_CRASHES} crashes: allow ten deliveries"
        )
    elif not limits.drops_duplicates:
        text += "; a retry may run twice when its worker dies in the middle of it"
    return Fact(f"queue {name}", text, warning=limits.deliveries < _NEEDED)
