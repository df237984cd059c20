"""Notifier: a listener that puts notices into a bounded queue, and a thread that delivers them.

It never blocks the worker: notices that do not fit into the queue are dropped and counted. Each notice is tried once.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from queue import Empty, Full, Queue

from msgspec import Struct, structs

from tenure.clock import Clock
from tenure.errors import SettingsError, TenureError
from tenure.events import Event, Notified
from tenure.notifications.notice import Notice, RenderedNotice, is_other_handler, notices_of, render
from tenure.recipients import Notification
from tenure.redaction import Redactor, one_line

logger = logging.getLogger(__name__)

MAX_WAITING_NOTICES = 1000  # in a flood, the rate would stop the later ones anyway
FLUSH_TIMEOUT = 10.0

Deliver = Callable[[RenderedNotice], object]
NoticeQueue = Queue["tuple[Subscription, Notice] | None"]


class Subscription(Struct, frozen=True):
    """A notification, and how it is delivered: `job`, `webhook` or `mail` with its function."""

    name: str
    notification: Notification
    ways: Mapping[str, Deliver]


class Notifier:
    """`app.notifications`; the first notice starts its thread."""

    def __init__(
        self,
        complete: Callable[[Notice], Notice],
        may_send: Callable[[str, str | int], bool],
        clock: Clock,
        sensitive: Sequence[str],
        emit: Callable[[Event], None],
    ) -> None:
        """`complete` adds what the backend knows about a job to its notice.

        `may_send` says whether the rate of a notification, which all workers share, allows one more notice.
        `sensitive` are words whose values are masked; `emit` gets an event for each sent, failed or dropped notice.
        """
        self._complete = complete
        self._may_send = may_send
        self._clock = clock
        self._sensitive = sensitive
        self._emit = emit
        self.muted: frozenset[str] = frozenset()  # ways by which nothing is sent: a test must not send mail
        self._subscriptions: list[Subscription] = []
        self._waiting: NoticeQueue = Queue(MAX_WAITING_NOTICES)
        self._left_out: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self._sensitive)  # created on use: it takes a millisecond

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self._subscriptions)

    @property
    def jobs(self) -> tuple[str, ...]:
        """The handlers of notification jobs; their own jobs are not reported, as each report would cause another."""
        return tuple(each.notification.job for each in self._subscriptions if each.notification.job)

    def add(self, subscription: Subscription) -> None:
        if subscription.name in self.names:
            raise SettingsError(f"there are two notifications {subscription.name!r}: give one another name")
        self._subscriptions.append(subscription)

    def __call__(self, event: Event) -> None:
        """Listen to an event; quick, even if notices cannot be delivered."""
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

    def flush(self, timeout: float = FLUSH_TIMEOUT) -> bool:
        """Wait until every notice has been tried; False if the time is up before."""
        return _is_done(self._waiting, timeout)

    def close(self, timeout: float = FLUSH_TIMEOUT) -> None:
        """Deliver what can be delivered in this time, and drop the rest."""
        with self._lock:
            thread, self._thread = self._thread, None
            waiting, self._waiting = self._waiting, Queue(MAX_WAITING_NOTICES)
        if thread is None:
            return
        if not _is_done(waiting, timeout):
            self._drop_all(waiting)
        waiting.put(None)
        thread.join(timeout)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                target, given = self._deliver_all, (self._waiting,)
                self._thread = threading.Thread(target=target, args=given, name="tenure-notifier", daemon=True)
                self._thread.start()

    def _drop_all(self, waiting: NoticeQueue) -> None:
        try:
            while item := waiting.get_nowait():
                self._count(item[0], "dropped")
                waiting.task_done()
        except Empty:
            pass

    def _deliver_all(self, waiting: NoticeQueue) -> None:
        while (item := waiting.get()) is not None:
            try:
                self._deliver(*item)
            except Exception:  # no error may end the thread
                logger.exception("notification %r failed", item[0].name)
            finally:
                waiting.task_done()

    def _deliver(self, to: Subscription, notice: Notice) -> None:
        is_unknown = notice.id is not None and notice.handler is None
        if is_unknown:  # a refused message: only the backend knows its handler
            notice = self._complete(notice)
            if notice.handler is not None and is_other_handler(notice.handler, to.notification, self.jobs):
                return
        if not self._is_within_rate(to):
            self._left_out[to.name] += 1
            self._count(to, "limited")
            return
        if not is_unknown:
            notice = self._complete(notice)
        notice = structs.replace(notice, left_out=self._left_out.pop(to.name, 0))
        self._send(to, render(notice, to.notification, self._redactor))

    def _send(self, to: Subscription, notice: RenderedNotice) -> None:
        for way, deliver in to.ways.items():
            if way in self.muted:
                continue
            try:
                deliver(notice)
            except TenureError as error:
                logger.error("notification %r was not delivered: %s", to.name, one_line(str(error)))  # noqa: TRY400
                self._count(to, "failed", way=way)
            else:
                self._count(to, "sent", way=way)

    def _is_within_rate(self, to: Subscription) -> bool:
        try:
            return self._may_send(to.name, to.notification.rate)
        except TenureError as error:
            logger.warning("the rate of notification %r is unknown, so it is sent: %s", to.name, error)
            return True

    def _count(self, to: Subscription, outcome: str, count: int = 1, way: str | None = None) -> None:
        self._emit(Notified(to.name, way, outcome, count))


def _is_done(waiting: NoticeQueue, timeout: float) -> bool:
    with waiting.all_tasks_done:
        return waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, timeout)
