"""`app.guards`: inspect guards, reset them, and use them without a job."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Literal, NamedTuple

from tenure.backends.contract import required
from tenure.backends.parts import WorkerRegistry
from tenure.clock import MICROSECOND
from tenure.definition.context import Context
from tenure.definition.job import new_id
from tenure.errors import (
    BackendError,
    Cancel,
    CircuitOpen,
    DeadlineExceeded,
    RateLimited,
    SettingsError,
    Snooze,
    WorkerNotFound,
)
from tenure.guards.breaker import Breaker
from tenure.guards.guard import (
    Ending,
    Refusal,
    drain_worker,
    forget_keys,
    pause_queue,
    read_pauses,
    renew_guards,
    settle_guards,
    take_guard,
    take_guards,
)
from tenure.guards.rate_limit import RateLimit, parse_rate
from tenure.guards.states import (
    WAKE_ALL,
    Bucket,
    Circuit,
    Claimed,
    Done,
    Holder,
    Paused,
    Slots,
    State,
    claim_key,
    concurrency_key,
    drain_key,
    free_tokens,
    holds_of,
    lock_key,
    pause_key,
    rate_key,
    unpack,
)
from tenure.guards.store import Store
from tenure.suggestions import nearest
from tenure.worker.guard_rules import GuardRules


class Usage(NamedTuple):
    """The tokens of a rate: `used` of `burst` tokens are spent; the next comes in `again` seconds."""

    used: int
    burst: int
    again: float


class Limiter:
    """A rate limit of a queue, of a handler, of a key, or of your own code."""

    def __init__(self, store: Callable[[], Store], guard: RateLimit) -> None:
        self._store = store
        self._guard = guard

    def allow(self) -> bool:
        """Spend a token; False if there is none."""
        return self._spend() is None

    def throttle(self) -> None:
        """Spend a token, or raise RateLimited with the seconds until the next."""
        if (refusal := self._spend()) is not None:
            again = self.usage().again
            raise RateLimited(f"{refusal.key!r} is limited to {self._guard.rate}; try again in {again:.2g} s", again)

    def usage(self) -> Usage:
        now, states = self._store().read([self._guard.key])
        state = unpack(states.get(self._guard.key))
        free = self._guard.tokens(state, now)
        again = max(0, self._guard.bucket(state, now).next_at() - now) / 1_000_000
        return Usage(self._guard.rate.burst - free, self._guard.rate.burst, again)

    def reset(self) -> None:
        """Fill the bucket, and wake the jobs that can start then."""
        self._store().change([self._guard.fill()])

    def _spend(self) -> Refusal | None:
        refusal: Refusal | None = self._store().change([take_guards([self._guard], Holder(new_id(), 1, 0.0))])[0]
        return refusal


class GuardRecord(NamedTuple):
    """A guard as it is now; with `waiting`, jobs may be parked under its key."""

    key: str
    state: State | None
    waiting: bool
    now: int

    @property
    def kind(self) -> str:
        return self.key.partition(":")[0]

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that hold it, or that have used up an idempotency key."""
        if isinstance(self.state, Done):
            return (self.state.id,)
        return tuple(hold.id for hold in holds_of(self.state) if hold.until > self.now)

    def text(self) -> str:
        """What it means, in words."""
        match self.state:
            case Slots(limit, _):
                return f"{len(self.jobs)} of {limit} held"
            case Claimed():
                return "claimed by a job that has not succeeded yet" if self.jobs else "its claim has lapsed"
            case Done():
                return "done: later jobs with this key do not run"
            case Bucket(_, burst) as bucket:
                used = burst - max(0, free_tokens(bucket, self.now))
                return f"{used} of {burst} used; the next start is in {self._seconds(bucket.next_at())}"
            case Circuit(failures, 0, _):
                return f"closed after {failures} failures in a row"
            case Circuit(failures, until, _) if until > self.now:
                return f"open after {failures} failures in a row; it lets a probe through in {self._seconds(until)}"
            case Circuit():
                return "half-open: the next call decides"
            case Paused(_, reason):
                what = "draining" if self.kind == "drain" else "paused"
                return what if reason is None else f"{what}: {reason}"
        return "free"

    def _seconds(self, moment: int) -> str:
        return f"{max(0, moment - self.now) / MICROSECOND:.1f} s"


class Guards:
    """`app.guards`."""

    def __init__(
        self,
        store: Callable[[], Store],
        rules: GuardRules,
        seconds: float,
        backend_name: Callable[[], str | None],
        find_queue: Callable[[str], str | None],
        workers: Callable[[], WorkerRegistry | None],
    ) -> None:
        """Locks and slots are held for `seconds` unless renewed.

        `backend_name` returns the name of the backend if the guards are stored elsewhere, else None.
        `find_queue` returns the name of a queue that the app knows, from an alias or another spelling.
        """
        self._find_queue = find_queue
        self._workers = workers
        self.store = store
        self._backend_name = backend_name
        self._seconds = seconds
        self.rules = rules

    def forget(self, idempotency_key: str) -> bool:
        """Let a job with this key run again; whether the key was known."""
        return self._drop(claim_key(idempotency_key))

    def unlock(self, name: str) -> bool:
        """Free the single-instance lock of this name, also while a job holds it; whether it was held."""
        return self._drop(lock_key(name))

    def free(self, handler: str, key: str | None = None) -> bool:
        """Free all slots of `at_most` for a handler, or for a key; whether any was held."""
        return self._drop(concurrency_key(handler, key))

    def queue(self, name: str) -> Limiter:
        """The limiter of a queue, from the setting `rates`."""
        guard = self.rules.queue_rate(self._queue_name(name))
        if guard is None:
            raise SettingsError(f"queue {name!r} has no rate; set one with rates.{name}")
        return Limiter(self.store, guard)

    def rate(self, rate: str | int, *, handler: str | None = None, key: str | None = None) -> Limiter:
        """The limiter that the jobs of this handler or key share, or a limiter of your own under a key."""
        return Limiter(self.store, RateLimit(rate_key(handler or "", key), parse_rate(rate)))

    def breaker(self, name: str) -> "BreakerHandle":
        """The breaker of this name; jobs use it with the option `breaker` and with `ctx.breaker`."""
        return BreakerHandle(self.store, self.rules.breaker(name), name, self._seconds)

    def around_backend(self) -> "BreakerHandle | None":
        """The breaker around the backend that all workers share; None if the backend stores the guards.

        In that case each worker has its own breaker.
        """
        name = self._backend_name()
        if name is None:
            return None
        return BreakerHandle(self.store, self.rules.backend_breaker(name), name, self._seconds)

    def pause(self, queue: str, reason: str | None = None) -> bool:
        """Stop all workers from leasing from a queue, within about a second; False if it was already paused."""
        return bool(self.store().change([pause_queue(self._queue_name(queue), reason)])[0])

    def resume(self, queue: str) -> bool:
        """Let workers lease from a queue again; whether it was paused."""
        return self._drop(pause_key(self._queue_name(queue)))

    def paused(self, *queues: str) -> dict[str, Paused]:
        """The paused ones among these queues, with time and reason."""
        return read_pauses(self.store(), list(map(self._queue_name, queues))).queues

    def drain_worker(self, worker: str, reason: str | None = None) -> bool:
        """Stop one worker, by its id, from leasing jobs, within about a second; False if it was draining already.

        Its running jobs continue and the process stays. Raises WorkerNotFound if no such worker is alive.
        """
        self.check_alive(worker)
        return bool(self.store().change([drain_worker(worker, reason)])[0])

    def resume_worker(self, worker: str) -> bool:
        """Let a draining worker lease jobs again; whether it was draining. Raises WorkerNotFound for an unknown id."""
        was_draining = self._drop(drain_key(worker))
        if not was_draining:
            self.check_alive(worker)
        return was_draining

    def draining(self, *workers: str) -> dict[str, Paused]:
        """The draining ones among these workers, with time and reason."""
        return read_pauses(self.store(), (), workers).workers

    def check_alive(self, *workers: str) -> None:
        """Raise WorkerNotFound unless workers with all of these ids are alive."""
        alive = {worker.id for worker in required(self._workers(), "registry of workers").alive()}
        for worker in workers:
            if worker not in alive:
                guess = nearest(worker, alive)
                known = f"did you mean {guess!r}?" if guess else "`tenure workers` lists those that are alive"
                raise WorkerNotFound(f"no worker {worker!r} is alive; {known}")

    def _queue_name(self, queue: str) -> str:
        return self._find_queue(queue) or queue

    def search(self, prefix: str = "", limit: int = 100, after: str = "") -> list[GuardRecord]:
        """Up to `limit` guards with a state or waiting jobs whose keys begin so, such as `lock:` or `rate:`, by key.

        `after` is the last key of the page before.
        """
        now, found = self.store().search(prefix, limit, after)
        return [GuardRecord(key, unpack(row.current(now)), row.waiting, now) for key, row in found.items()]

    def reset(self, key: str) -> bool:
        """Forget the state of a guard, by its whole key, and wake the jobs that can start then; whether it had any.

        A lock becomes free also while a job holds it.
        """
        state = unpack(self.store().read([key])[1].get(key))
        wake = 1
        match state:
            case Slots(limit, _):
                wake = limit
            case Bucket(_, burst):
                wake = burst
            case Circuit():
                wake = WAKE_ALL
        return bool(self.store().change([forget_keys(key, wake=wake)])[0])

    def _drop(self, key: str) -> bool:
        return bool(self.store().change([forget_keys(key)])[0])


logger = logging.getLogger(__name__)

BreakerState = Literal["closed", "open", "half_open"]
_STORE_RETRY_SECONDS = 2.0


class BreakerHandle:
    """A named circuit breaker for calls to a service that can fail: `with app.guards.breaker("stripe").closed():`."""

    def __init__(self, store: Callable[[], Store], guard: Breaker, name: str, seconds: float) -> None:
        """`seconds` is how long a probe is held unless renewed."""
        self._store = store
        self._guard = guard
        self._name = name
        self._seconds = seconds

    def closed(self) -> "BreakerCall":
        """Wrap a call to the service: raises CircuitOpen while the breaker is open, and counts failures."""
        return BreakerCall(self._store, self._guard, self._name, Holder(new_id(), 1, self._seconds))

    def within(self, context: Context) -> "BreakerCall":
        """As `closed`, within a job: the job waits for the breaker unless its handler catches CircuitOpen."""
        holder = Holder(context.id, context.fence, self._seconds)
        return BreakerCall(self._store, self._guard, self._name, holder, context)

    def state(self) -> BreakerState:
        circuit, now = self._circuit()
        if circuit is None or not circuit.until:
            return "closed"
        return "open" if circuit.until > now else "half_open"

    def failures(self) -> int:
        circuit, _ = self._circuit()
        return 0 if circuit is None else circuit.failures

    def reset(self) -> None:
        """Close the breaker and forget its failures."""
        self._store().change([forget_keys(self._guard.key, wake=WAKE_ALL)])

    def _circuit(self) -> tuple[Circuit | None, int]:
        now, states = self._store().read([self._guard.key])
        state = unpack(states.get(self._guard.key))
        return (state if isinstance(state, Circuit) else None), now


class BreakerCall:
    """A call through a breaker. A probe renews its slot until the call ends; the slot expires if its process dies."""

    def __init__(
        self, store: Callable[[], Store], guard: Breaker, name: str, holder: Holder, context: Context | None = None
    ) -> None:
        self._store = store
        self._guard = guard
        self._name = name
        self._holder = holder
        self._context = context
        self._ended = threading.Event()

    def __enter__(self) -> None:
        self._start_renewal(self._take())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settle(self._has_succeeded(error))

    async def __aenter__(self) -> None:
        # The renewal starts here and not in the thread: if this task is cancelled meanwhile, nothing would end it.
        import asyncio  # callers of a coroutine have it; others would wait for it

        self._start_renewal(await asyncio.to_thread(self._take))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        import asyncio

        await asyncio.to_thread(self._settle, self._has_succeeded(error))

    def _take(self) -> bool:
        """Take the guard; whether this call is the probe."""
        try:
            taken: Refusal | bool = self._store().change([take_guard(self._guard, self._holder)])[0]
        except BackendError as error:
            if self._context is None:
                raise
            raise Snooze(_STORE_RETRY_SECONDS, f"the breaker {self._name!r} cannot be read: {error}") from error
        if not isinstance(taken, Refusal):
            return taken
        message = f"the breaker {self._name!r} is open after too many failures"
        raise CircuitOpen(message) if self._context is None else CircuitOpen(message, taken.key, taken.until)

    def _start_renewal(self, is_probe: bool) -> None:
        if is_probe:
            threading.Thread(target=self._renew, name=f"tenure-probe-{self._name}", daemon=True).start()

    def _renew(self) -> None:
        while not self._ended.wait(self._holder.seconds / 3):
            try:
                self._store().change([renew_guards([self._guard], self._holder)])
            except BackendError as error:
                logger.warning("the probe of breaker %r could not be renewed: %s", self._name, error)

    def _settle(self, succeeded: bool | None) -> None:
        """Record the result; an error here is only logged, because the call itself has ended."""
        self._ended.set()
        try:
            self._store().change([settle_guards([self._guard], self._holder, Ending(over=True, succeeded=succeeded))])
        except BackendError as error:
            logger.warning("breaker %r could not record the result of a call: %s", self._name, error)

    def _has_succeeded(self, error: BaseException | None) -> bool | None:
        """Whether the service works; None if the end of the call says nothing about it."""
        if error is None:
            return True
        if isinstance(error, (Snooze, Cancel, CircuitOpen)):
            return None
        from asyncio import CancelledError

        if isinstance(error, CancelledError):  # a timeout cancels the coroutine too
            return False if self._context and self._context.time_left == 0 else None
        return False if isinstance(error, (Exception, DeadlineExceeded)) else None
