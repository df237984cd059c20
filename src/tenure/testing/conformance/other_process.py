"""Another process on the backend under test: `python -m tenure.testing.conformance.other_process VERB URL QUEUE …`."""

import sys
from collections.abc import Callable

from msgspec import structs

from tenure.backends.contract import Backend
from tenure.backends.messages import Ack
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.messages import LEASE, FullBackend, make, numbers, take_all


def drain(backend: Backend, queue: str) -> None:
    """Lease and ack until nothing is ready, and print the number of each message."""
    while leases := backend.lease([queue], limit=20, seconds=10 * LEASE):
        lost = backend.ack([Ack(lease=lease) for lease in leases])
        say(*(str(number) for number in numbers([lease for lease in leases if lease not in lost])))


def hold(backend: Backend, queue: str, count: str) -> None:
    """Lease, say so, and keep what was leased until killed."""
    leases = take_all(backend, int(count), queue)
    say(f"holding {len(leases)}")
    sys.stdin.read()


def put(backend: Backend, queue: str, number: str) -> None:
    backend.put([make(int(number), queue=queue)])


def cancel(backend: FullBackend, *ids: str) -> None:
    backend.control.cancel(ids)


def audit(backend: FullBackend, id: str, new_id: str) -> None:
    """Save a copy of an audit record under a new id."""
    found = backend.audit.find(id)
    if found is not None:
        backend.audit.save(structs.replace(found, id=new_id))


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


VERBS: dict[str, Callable[..., None]] = {"drain": drain, "hold": hold, "put": put, "cancel": cancel, "audit": audit}


def main(verb: str, url: str, *arguments: str) -> None:
    backend = open_backend(url, SystemClock())
    VERBS[verb](backend, *arguments)
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
