"""Another scheduler on the ledger under test: `python -m tenure.testing.conformance.other_scheduler URL QUEUE`."""

import sys
from typing import Any

from tenure.backends.ledger import Note
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.ledger import entry
from tenure.testing.conformance.messages import make


def main(url: str, queue: str) -> None:
    """Enter fifty ticks, one by one, with a message each; print the ids of those that were new."""
    backend: Any = open_backend(url, SystemClock())
    for number in range(50):
        message = make(number, queue=queue)
        if backend.ledger.booking is not None:
            won = backend.ledger.booking.book([entry(number, state="enqueued")], [message])
        else:
            won = backend.ledger.enter([entry(number)])
            backend.put([message])
            backend.ledger.note([Note(message.id, "enqueued")])
        sys.stdout.write("".join(f"{id}\n" for id in won))
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
