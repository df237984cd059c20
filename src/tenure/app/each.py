"""Sealing and putting jobs that do not share a fate."""

from collections.abc import Sequence

from tenure.app.sealer import Channel, Sealer
from tenure.backends.contract import Backend, Message
from tenure.definition.job import Job
from tenure.errors import BackendUnavailable, PartialPut, TenureError

Refusals = dict[str, Exception]


def seal(sealer: Sealer, job: Job, channel: Channel) -> Message | Exception:
    """The message of a job, or why there is none."""
    try:
        return sealer.message(job, channel)
    except Exception as error:  # whatever it is, it is the affair of whoever made this job
        return error


def put_each(backend: Backend, messages: Sequence[Message]) -> Refusals:
    """Put messages together; which were refused and why, by id. One that is refused takes no other along.

    A put of what is stored already changes nothing, so halves can be put again until the culprits are alone.
    """
    if not messages:
        return {}
    try:
        backend.put(messages)
    except PartialPut as error:
        accepted = set(error.accepted)
        return {message.id: error for message in messages if message.id not in accepted}
    except BackendUnavailable as error:
        return dict.fromkeys((message.id for message in messages), error)
    except TenureError as error:
        if len(messages) == 1:
            return {messages[0].id: error}
        middle = len(messages) // 2
        return put_each(backend, messages[:middle]) | put_each(backend, messages[middle:])
    return {}
