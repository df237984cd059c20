"""The names of queues that users give to commands: any spelling that the app or its backend knows."""

import logging

from tenure.app import Tenure
from tenure.app.workers import stored_queues
from tenure.suggestions import nearest

logger = logging.getLogger(__name__)


def find_queue(app: Tenure, queue: str) -> str:
    """The name of the queue that the user means.

    A queue that only the backend knows, because it has jobs, is found too. For another unknown name that is like a
    known one, the command logs a warning; with the setting `strict_queues` it is an error.
    """
    found = app.queues.find(queue) or _find_stored(app, queue)
    if found is None and app.settings.strict_queues:
        app.discover(*app.settings.modules)  # their handlers may have queues of their own
        return app.queues.known(queue)
    if found is None and (guess := app.queues.nearest(queue) or nearest(queue, stored_queues(app.parts()))):
        logger.warning("no handler, setting or stored job names the queue %r; did you mean %r?", queue, guess)
    return found or app.queues.resolve(queue)


def _find_stored(app: Tenure, queue: str) -> str | None:
    stored = stored_queues(app.parts())
    return queue if queue in stored else next((each for each in stored if each.lower() == queue.lower()), None)
