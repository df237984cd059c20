"""Delivery: puts the jobs of an outbox to their backend, so that one refused job does not hold back the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tenure.app.stores import put_unique, require_unique
from tenure.backends.contract import Backend
from tenure.backends.messages import Message
from tenure.errors import BackendError, BackendUnavailable, PartialPut, Unstorable

# So many jobs, each refused alone by an error that may not be its own, such as a full disk: no job would be taken.
_REFUSALS = 2


@dataclass(slots=True)
class Delivery:
    """What became of a batch: `new` ids, those `dropped` as duplicates, and errors by id.

    A backend that stores an id once does not report it again, so an id that is in none of these was stored before.
    `has_answered` is whether the backend can serve: it took a job, or refused one for its own sake.
    """

    new: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    refused: dict[str, Exception] = field(default_factory=dict)
    unavailable: dict[str, Exception] = field(default_factory=dict)
    has_answered: bool = False

    @property
    def cannot_serve(self) -> bool:
        """Whether the backend refuses whatever it gets."""
        return not self.has_answered and len(self.refused) >= _REFUSALS


def deliver(backend: Backend, messages: Sequence[Message]) -> Delivery:
    """Put messages; the backend may have stored some of them already."""
    delivery = Delivery()
    _put(backend, messages, delivery)
    if delivery.cannot_serve:
        delivery.unavailable.update(delivery.refused)
        delivery.refused = {}
    stored = delivery.new | delivery.refused.keys() | delivery.unavailable.keys()
    for message in messages:
        if message.unique is not None and message.id not in stored:
            _put_again(backend, message, delivery)
    return delivery


def _put(backend: Backend, messages: Sequence[Message], delivery: Delivery) -> None:
    """Halve a refused batch until each refused message is alone; stop where the backend cannot serve."""
    if delivery.unavailable or delivery.cannot_serve:
        error = next(iter((delivery.unavailable | delivery.refused).values()))
        delivery.unavailable.update(dict.fromkeys((message.id for message in messages), error))
        return
    try:
        require_unique(backend, messages)
        delivery.new.update(backend.put(messages))
        delivery.has_answered = True
    except BackendUnavailable as error:
        delivery.unavailable.update(dict.fromkeys((message.id for message in messages), error))
    except PartialPut as error:
        accepted = set(error.accepted)
        delivery.new |= accepted
        delivery.has_answered |= bool(accepted) or isinstance(error.__cause__, Unstorable)
        rest = [message for message in messages if message.id not in accepted]
        if accepted:
            _put(backend, rest, delivery)
        elif isinstance(error.__cause__, BackendUnavailable):
            delivery.unavailable.update(dict.fromkeys((message.id for message in rest), error))
        else:
            _split(backend, rest, delivery, error)
    except Exception as error:  # any other error belongs to one of these jobs, and must not stop the relay
        delivery.has_answered |= isinstance(error, Unstorable) or not isinstance(error, BackendError)
        _split(backend, messages, delivery, error)


def _split(backend: Backend, messages: Sequence[Message], delivery: Delivery, error: Exception) -> None:
    if len(messages) == 1:
        delivery.refused[messages[0].id] = error
        return
    middle = len(messages) // 2
    for half in (messages[:middle], messages[middle:]):
        _put(backend, half, delivery)


def _put_again(backend: Backend, message: Message, delivery: Delivery) -> None:
    """Find out why a job with a `unique` text is not new: its text is taken, or it was stored before."""
    try:
        if put_unique(backend, message, "return", backend.put, None) is not None:
            delivery.dropped.add(message.id)
    except BackendUnavailable as error:
        delivery.unavailable[message.id] = error
    except Exception as error:  # as above
        delivery.refused[message.id] = error
