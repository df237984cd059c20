"""Envelope: a job as one flat JSON object, the same on every backend, and the jobs that follow it.

`Wire` seals jobs into messages and opens messages. Sealed bytes never change.
Size, depth and number of members are checked before a message is decoded, and before it is sent.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from tenure.clock import to_datetime, to_microseconds
from tenure.definition.context import Trace
from tenure.definition.duration import to_moment
from tenure.definition.job import DEFAULT_MAX_CRASHES, Job
from tenure.definition.limits import (
    Count,
    Crashes,
    Delay,
    Length,
    Limit,
    Moment,
    Priority,
    Tags,
    Text,
    Version,
    bounds_of,
    check_key,
    check_queue,
    check_tags,
    check_text,
    is_key,
    storable_tags,
)
from tenure.definition.moment import to_instant
from tenure.definition.payload import find_json_fault, plain_text
from tenure.definition.retry import Backoff
from tenure.errors import BadSignature, InvalidJob, InvalidPayload, Malformed, WrongAudience
from tenure.events import EndState
from tenure.guards.rate_limit import parse_rate
from tenure.wire.json_limits import MAX_DEPTH, check_limits, refuse_repeated_members
from tenure.wire.signing import SEAL_SIZE, Ring

MAX_BYTES = 256 * 1024


class Envelope(Struct, frozen=True, rename="camel"):
    """What is sealed; `attempts` is always 0, because the backend keeps the counters beside the message.

    Its types are those of a Job, because another program may hold a key and seal messages.
    """

    v: Version
    kid: Text
    job: Text
    payload: Raw
    queue: Text
    priority: Priority
    max_retries: Count
    attempts: Count
    name: Text | None
    identifier: Text
    idempotency_key: Text | None
    schedule: Moment | None
    timeout: Length | UnsetType = UNSET
    single_instance: bool | UnsetType = UNSET
    max_crashes: Crashes | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET
    audience: Text | UnsetType = UNSET
    created_at: Moment | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    callbacks: "Callbacks | UnsetType" = UNSET
    idempotency_ttl: Length | UnsetType = UNSET
    key: Text | UnsetType = UNSET
    at_most: Limit | UnsetType = UNSET
    rate: Text | UnsetType = UNSET
    breaker: Text | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    trace: Trace | UnsetType = UNSET
    unique: Text | UnsetType = UNSET

    @property
    def payload_version(self) -> int:
        return 1 if self.version is UNSET else self.version


class Follower(Struct, frozen=True, omit_defaults=True):
    """A job to enqueue `delay` seconds after another has ended; the seal of the other job covers it.

    `result` and `error` name the arguments that get the result and the error of the other job.
    """

    message: Envelope
    delay: Delay = 0.0
    result: str = ""
    error: str = ""


class Callbacks(Struct, frozen=True, omit_defaults=True, rename={"on_failure": "onFailure", "finally_": "finally"}):
    """The jobs to enqueue on success, when dead, and at any end; those of `chain` run one by one while they succeed."""

    then: tuple[Follower, ...] = ()
    on_failure: tuple[Follower, ...] = ()
    finally_: tuple[Follower, ...] = ()
    chain: tuple[Follower, ...] = ()


class Template(Struct, frozen=True):
    """The bytes of an envelope around its payload and its identifier, for messages that are equal in all else."""

    job: str
    head: bytes
    middle: bytes
    tail: bytes


_TEXTS = tuple(bound.field for bound in bounds_of(get_type_hints(Envelope, include_extras=True)) if bound.kind is str)
_BACKSLASH = ord("\\")  # as a number it is found in 15 ns, as bytes in 200
_NUL = rb"\u0000"  # the only way to write one in JSON; the decoder refuses the lone surrogates
# Inside a text of the envelope these quotes would be escaped, and only the names of a key and a handler come before.
_BEFORE_PAYLOAD = b',"payload":'
_BEFORE_IDENTIFIER = b',"identifier":'
_encoder = msgspec.json.Encoder(enc_hook=plain_text)
_decoder = msgspec.json.Decoder(Envelope)
_members = msgspec.json.Decoder(dict[str, Raw])
_SHALLOW = 2 * (MAX_DEPTH - 1)  # bytes: a shorter payload is not too deep
# Together with the members that every envelope has: no shorter message is too deep.
_SHORT = len(_encoder.encode(Envelope(1, "", "", Raw(b""), "", 0, 0, 0, "", "", "", None))) + _SHALLOW


class Wire:
    """Seals jobs into messages and opens messages into envelopes, with one key ring, size limit and audience."""

    def __init__(self, ring: Ring, max_bytes: int = MAX_BYTES, audience: str | None = None) -> None:
        self.ring = ring
        self._max_bytes = max_bytes
        self._audience: str | UnsetType = audience or UNSET
        self._short = _SHORT + SEAL_SIZE if ring.verifies else _SHORT

    def seal(self, job: Job, payload: bytes, identifier: str, now: int, version: int = 1) -> bytes:
        """The bytes of a message; they never change."""
        return self.seal_envelope(self.envelope(job, payload, identifier, now, version))

    def envelope(
        self, job: Job, payload: bytes, identifier: str, now: int, version: int = 1, callbacks: Callbacks | None = None
    ) -> Envelope:
        """The envelope that `seal` would seal for this job."""
        if job.meta and (fault := find_json_fault(job.meta, "meta")):
            raise InvalidJob(f"{fault[0]} of job {job.handler!r} is {fault[1]!r:.80}; {fault[2]}")
        envelope = Envelope(
            1,
            self.ring.kid,
            job.handler,
            Raw(payload),
            job.queue,
            job.priority,
            job.max_retries,
            0,
            job.name,
            identifier,
            job.idempotency_key,
            to_datetime(due) if (due := due_at(job, now)) else None,
            job.timeout or UNSET,
            job.single_instance or UNSET,
            UNSET if job.max_crashes == DEFAULT_MAX_CRASHES else job.max_crashes,
            job.backoff or UNSET,
            job.meta or UNSET,
            self._audience,
            to_datetime(now),
            to_instant(job.expires_at, "expires_at", now, "UTC") if job.expires_at else UNSET,
            UNSET if version == 1 else version,
            callbacks or UNSET,
            job.idempotency_ttl or UNSET,
            UNSET if job.key is None else job.key,
            job.at_most or UNSET,
            job.rate or UNSET,
            job.breaker or UNSET,
            job.tags or UNSET,
            UNSET,
            UNSET if job.unique is None else job.unique,
        )
        if self.ring.scopes:
            self._authorise(envelope.kid, envelope)
        return envelope

    def seal_follower(
        self, follower: Follower, identifier: str, now: int, meta: dict[str, Any], arguments: dict[str, Raw]
    ) -> bytes:
        """The message of a job that follows another, signed with our own key.

        The entries of `meta` are added to its meta, and the `arguments`, which are JSON, to its payload.
        """
        envelope = follower.message
        due = now + round(follower.delay * 1_000_000)
        return self.seal_envelope(
            structs.replace(
                envelope,
                kid=self.ring.kid,
                identifier=identifier,
                schedule=to_datetime(due) if follower.delay else envelope.schedule,
                meta={**({} if envelope.meta is UNSET else envelope.meta), **meta},
                payload=_with_arguments(envelope.payload, arguments) if arguments else envelope.payload,
                created_at=to_datetime(now),
            )
        )

    def seal_envelope(self, envelope: Envelope) -> bytes:
        """The message for this envelope."""
        may_be_deep = envelope.meta is not UNSET or envelope.callbacks is not UNSET or len(envelope.payload) > _SHALLOW
        return self._seal(_encode(envelope), envelope.job, may_be_deep)

    def seal_template(self, template: Template, payload: bytes, identifier: str) -> bytes:
        """The message for the envelope of a template with this payload and identifier."""
        parts = (template.head, payload, template.middle, _encoder.encode(identifier), template.tail)
        return self._seal(b"".join(parts), template.job, len(payload) > _SHALLOW)

    def _seal(self, unsealed: bytes, job: str, may_be_deep: bool) -> bytes:
        sealed = self.ring.seal(unsealed)
        if len(sealed) > self._max_bytes:
            raise InvalidPayload(
                f"job {job!r} makes a message of {len(sealed)} bytes, above the limit of {self._max_bytes}; "
                "store the data elsewhere and send a reference to it"
            )
        if may_be_deep:
            try:
                check_limits(sealed)
            except Malformed as error:
                raise InvalidPayload(f"job {job!r} cannot be sent: {error}; make its payload smaller") from error
        return sealed

    def open(self, sealed: bytes, queue: str, identifier: str | None = None) -> Envelope:  # noqa: C901 - a call costs 0.1 µs
        """The envelope of a message from this queue with this id, after every check that needs no handler."""
        if len(sealed) > self._max_bytes:
            raise Malformed(f"the message has {len(sealed)} bytes, more than the limit of {self._max_bytes}")
        ring = self.ring
        ring.check(sealed)
        if len(sealed) > self._short:
            check_limits(sealed)
        try:
            envelope = _decoder.decode(sealed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidJob) as error:
            raise Malformed(f"the message is not an envelope: {error}") from error
        if not is_canonical(envelope, sealed):
            refuse_repeated_members(sealed)
        if envelope.queue != queue:
            raise BadSignature(f"the message was signed for queue {envelope.queue!r} but came from queue {queue!r}")
        if identifier is not None and envelope.identifier != identifier:
            raise BadSignature(f"the message was signed as job {envelope.identifier!r} but stored as {identifier!r}")
        if envelope.audience != self._audience:
            raise WrongAudience(f"the message is for {_name(envelope.audience)}, and we are {_name(self._audience)}")
        if ring.scopes:
            self._authorise(envelope.kid, envelope)
        has_nul = _BACKSLASH in sealed and sealed.find(_NUL) >= 0
        try:
            if envelope.rate is not UNSET:
                parse_rate(envelope.rate)
            if (  # most messages have none of these
                has_nul
                or not is_key(envelope.job)
                or envelope.schedule is not None
                or envelope.expires_at is not UNSET
                or envelope.callbacks is not UNSET
                or envelope.tags is not UNSET
            ):
                self._check_rules(envelope, envelope.kid, has_nul)
        except InvalidJob as error:
            raise Malformed(f"the message asks for what no job may ask for: {error}") from error
        return envelope

    def _authorise(self, kid: str, envelope: Envelope) -> None:
        self.ring.authorise(kid, envelope.queue, envelope.job, guard_names(envelope))

    def _check_rules(self, envelope: Envelope, kid: str, has_nul: bool) -> None:
        """The rules of a Job that the types of the fields do not express, for a message and the jobs that follow it."""
        check_key(envelope.job)
        if envelope.schedule is not None and envelope.schedule.tzinfo is not UTC:
            to_moment(envelope.schedule, "schedule")
        if envelope.expires_at is not UNSET and envelope.expires_at.tzinfo is not UTC:
            to_moment(envelope.expires_at, "expiresAt")
        if envelope.tags is not UNSET:
            check_tags(envelope.tags)
        for name in _TEXTS if has_nul else ():
            check_text(name, getattr(envelope, name) or "")
        if envelope.callbacks is not UNSET:
            self._check_followers(envelope.callbacks, kid, has_nul)

    def _check_followers(self, callbacks: Callbacks, kid: str, has_nul: bool) -> None:
        """The same rules, and the scopes of the key that sealed the message and of our key, which seals followers."""
        for follower in (*callbacks.then, *callbacks.on_failure, *callbacks.finally_, *callbacks.chain):
            message = follower.message
            check_queue(message.queue)
            if message.rate is not UNSET:
                parse_rate(message.rate)
            self._check_rules(message, kid, has_nul)
            for signer in (kid, self.ring.kid):
                self._authorise(signer, message)


def template_of(envelope: Envelope) -> Template:
    """The template for messages that differ from this envelope in payload and identifier only."""
    unsealed = _encode(envelope)
    head, _, rest = unsealed.partition(_BEFORE_PAYLOAD)
    middle, _, tail = rest[len(bytes(envelope.payload)) :].partition(_BEFORE_IDENTIFIER)
    tail = tail[len(_encoder.encode(envelope.identifier)) :]
    return Template(envelope.job, head + _BEFORE_PAYLOAD, middle + _BEFORE_IDENTIFIER, tail)


def _encode(envelope: Envelope) -> bytes:
    try:
        return _encoder.encode(envelope)
    except UnicodeEncodeError as error:
        raise InvalidJob(f"job {envelope.job!r} has text that UTF-8 cannot carry: {error}") from error


def guard_names(envelope: Envelope) -> list[str]:
    """The names of guards that the producer chose; all other guards belong to the handler or to the queue."""
    lock = envelope.name if envelope.single_instance else None
    names = (envelope.idempotency_key, envelope.key, envelope.breaker, lock)
    return [name for name in names if isinstance(name, str)]


def peek(sealed: bytes) -> Envelope:
    """The envelope of a message that was opened and checked before."""
    return _decoder.decode(sealed)


class _TaggedMessage(Struct, gc=False):
    tags: tuple[str, ...] = ()


_decode_tags = msgspec.json.Decoder(_TaggedMessage).decode


def claimed_tags(sealed: bytes) -> tuple[str, ...]:
    """The tags that a message names, which may be forged; none if it cannot be decoded."""
    if b'"tags":' not in sealed:
        return ()
    try:
        return storable_tags(_decode_tags(sealed).tags)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()


def is_canonical(envelope: Envelope, sealed: bytes) -> bool:
    """Whether our encoder, which writes each member once, would write these bytes, with nothing before the seal."""
    return _encoder.encode(envelope)[:-1] == sealed[:-SEAL_SIZE]


def _name(audience: str | UnsetType) -> str:
    return "no audience in particular" if audience is UNSET else f"audience {audience!r:.80}"


def due_at(job: Job, now: int) -> int:
    """When the job may start, in UTC microseconds; 0 if it may start at once. A phrase is read in UTC."""
    if job.at is not None:
        return to_microseconds(to_instant(job.at, "at", now, "UTC"))
    return now + round(job.delay * 1_000_000) if job.delay else 0


def followers(envelope: Envelope, ending: EndState) -> Iterator[tuple[str, Follower]]:
    """The jobs to enqueue after this end, each with its id; the ids are always the same, so a job is followed once."""
    callbacks = envelope.callbacks
    if callbacks is UNSET:
        return
    called = {"done": callbacks.then, "dead": callbacks.on_failure}.get(ending, ())
    for kind, given in (("then" if ending == "done" else "on_failure", called), ("finally", callbacks.finally_)):
        for number, follower in enumerate(given):
            yield follower_id(envelope.identifier, f"{kind}:{number}"), follower
    if ending == "done" and callbacks.chain:
        yield follower_id(envelope.identifier, "chain"), _first_of_chain(callbacks.chain)


def wants_result(envelope: Envelope) -> bool:
    """Whether a job that follows this one takes its result."""
    callbacks = envelope.callbacks
    if callbacks is UNSET:
        return False
    return any(follower.result for follower in (*callbacks.then, *callbacks.chain, *callbacks.finally_))


def _with_arguments(payload: Raw, arguments: dict[str, Raw]) -> Raw:
    members = _members.decode(payload)
    return Raw(_encoder.encode({**members, **arguments}))


def _first_of_chain(chain: tuple[Follower, ...]) -> Follower:
    """The first job of a chain, with the rest of the chain added to its own."""
    first, *rest = chain
    if not rest:
        return first
    own = first.message.callbacks or Callbacks()
    longer = structs.replace(own, chain=(*own.chain, *rest))
    return structs.replace(first, message=structs.replace(first.message, callbacks=longer))


def follower_id(parent: str, kind: str) -> str:
    """A UUID of version 8, which is for ids made by own rules: the time of the parent's id, then a digest."""
    digest = hashlib.sha256(f"{parent} {kind}".encode()).hexdigest()
    time = parent[:13] if len(parent) == 36 else f"{digest[32:40]}-{digest[40:44]}"
    return f"{time}-8{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"
