"""The lag of the outboxes as gauges of the metrics page; the label `backend` is empty for the backend of the app."""

import logging
from collections.abc import Iterator

from tenure.app.tenure import Tenure
from tenure.errors import TenureError
from tenure.metrics.counters import Labels

logger = logging.getLogger(__name__)


def outbox_gauges(app: Tenure) -> Iterator[tuple[str, Labels, float]]:
    """Jobs and age of the oldest, for each outbox of the settings and each backend that jobs wait for there."""
    if not app.settings.outboxes:
        return
    try:
        found = app.outboxes.depths()
    except TenureError as error:
        logger.warning("the metrics page shows no outboxes, because they cannot be read: %s", error)
        return
    for name, depth in found:
        labels = (("backend", depth.backend), ("outbox", name))
        yield "tenure_outbox_jobs", labels, depth.jobs
        yield "tenure_outbox_oldest_age_seconds", labels, depth.oldest_age
