"""The notifier: a listener that puts what is to be told into a bounded queue, and a thread that delivers it.

The worker is never held up: what does not fit into the queue is dropped, and counted. Each notice is tried once.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from queue import Empty, Full, Queue
from typing import Protocol

from msgspec import Struct, structs

from tenure.clock import Clock
from tenure.errors import SettingsError, TenureError
from tenure.events import Event, Notified
from tenure.notifications.notice import Letter, Notice, is_other, letter_of, notices_of
from tenure.recipients import Notification
from tenure.redaction import Redactor, one_line

logger = logging.getLogger(__name__)

MOST = 1000  # notices that wait: of a flood, a rate would let none of the later ones through
FLUSH = 10.0

Deliver = Callable[[Letter], object]
Waiting = Queue["tuple[Subscription, Notice] | None"]


class Surroundings(Protocol):
    """What the notifier needs of an app."""

    def completed(self, notice: Notice) -> Notice:
        """The notice with what the backend knows of its job."""
        ...

    def may_send(self, name: str, rate: str | int) -> bool:
        """Whether the rate of a notification, which all workers share, has room for one more."""
        ...


class Subscription(Struct, frozen=True):
    """A notification, and the ways in which it is delivered, by name."""

    name: str
    notification: Notification
    ways: Mapping[str, Deliver]


class Notifier:
    """What `app.notifications` is; its thread begins with the first notice."""

    def __init__(
        self, surroundings: Surroundings, clock: Clock, sensitive: Sequence[str], tell: Callable[[Event], None]
    ) -> None:
        """`sensitive` are words whose values are masked; `tell` is how listeners learn what became of notices."""
        self._surroundings = surroundings
        self._clock = clock
        self._sensitive = sensitive
        self._tell = tell
        self._subscriptions: list[Subscription] = []
        self._waiting: Waiting = Queue(MOST)
        self._left_out: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self._sensitive)  # takes a millisecond, which only those wait for who are told something

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self._subscriptions)

    @property
    def jobs(self) -> tuple[str, ...]:
        """The handlers that notices are told to; of their own jobs nothing is told, or one could tell of itself."""
        return tuple(each.notification.job for each in self._subscriptions if each.notification.job)

    def add(self, subscription: Subscription) -> None:
        if subscription.name in self.names:
            raise SettingsError(f"there are two notifications {subscription.name!r}: give each a name of its own")
        self._subscriptions.append(subscription)

    def __call__(self, event: Event) -> None:
        """As a listener: quick, whatever is wrong with those who are told."""
        for each in self._subscriptions:
            dropped = 0
            for notice in notices_of(event, each.notification, self.jobs, self._clock.now()):
                try:
                    self._waiting.put_nowait((each, notice))
                except Full:
                    dropped += 1
            if dropped:
                self._count(each, "dropped", dropped)
        if self._thread is None and not self._waiting.empty():
            self._start()

    def flush(self, timeout: float = FLUSH) -> bool:
        """Wait until all that was to be told has been tried; whether that is so in time."""
        return _is_done(self._waiting, timeout)

    def close(self, timeout: float = FLUSH) -> None:
        """Deliver what can be delivered in this time, and give up the rest."""
        with self._lock:
            thread, self._thread = self._thread, None
            waiting, self._waiting = self._waiting, Queue(MOST)
        if thread is None:
            return
        if not _is_done(waiting, timeout):
            self._give_up(waiting)
        waiting.put(None)
        thread.join(timeout)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                target, given = self._deliver_all, (self._waiting,)
                self._thread = threading.Thread(target=target, args=given, name="tenure-notifier", daemon=True)
                self._thread.start()

    def _give_up(self, waiting: Waiting) -> None:
        try:
            while item := waiting.get_nowait():
                self._count(item[0], "dropped")
                waiting.task_done()
        except Empty:
            pass

    def _deliver_all(self, waiting: Waiting) -> None:
        while (item := waiting.get()) is not None:
            try:
                self._deliver(*item)
            except Exception:  # whatever it is, it must not end the thread
                logger.exception("notification %r failed", item[0].name)
            finally:
                waiting.task_done()

    def _deliver(self, to: Subscription, notice: Notice) -> None:
        is_unknown = notice.id is not None and notice.handler is None
        if is_unknown:  # what was refused at the door says only in the backend whose it was
            notice = self._surroundings.completed(notice)
            if notice.handler is not None and is_other(notice.handler, to.notification, self.jobs):
                return
        if not self._has_room(to):
            self._left_out[to.name] += 1
            self._count(to, "limited")
            return
        if not is_unknown:
            notice = self._surroundings.completed(notice)
        notice = structs.replace(notice, left_out=self._left_out.pop(to.name, 0))
        self._send(to, letter_of(notice, to.notification, self._redactor))

    def _send(self, to: Subscription, letter: Letter) -> None:
        for way, deliver in to.ways.items():
            try:
                deliver(letter)
            except TenureError as error:
                logger.error("notification %r was not delivered: %s", to.name, one_line(str(error)))  # noqa: TRY400
                self._count(to, "failed", way=way)
            else:
                self._count(to, "sent", way=way)

    def _has_room(self, to: Subscription) -> bool:
        try:
            return self._surroundings.may_send(to.name, to.notification.rate)
        except TenureError as error:
            logger.warning("the rate of notification %r is unknown, it is sent: %s", to.name, error)
            return True

    def _count(self, to: Subscription, outcome: str, count: int = 1, way: str | None = None) -> None:
        self._tell(Notified(to.name, way, outcome, count))


def _is_done(waiting: Waiting, timeout: float) -> bool:
    with waiting.all_tasks_done:
        return waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, timeout)
