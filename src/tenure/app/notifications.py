"""Builds the notifications of an app from its settings and its code."""

from collections.abc import Callable
from functools import partial

from tenure.app.guards import Guards
from tenure.backends.contract import Parts
from tenure.builtin.url_destination import Resolve, resolve
from tenure.clock import Clock
from tenure.errors import InvalidJob, SettingsError, TenureError
from tenure.events import Listeners
from tenure.guards.rate_limit import parse_rate
from tenure.notifications.mail import Mailer
from tenure.notifications.notice import Notice, RenderedNotice, with_record
from tenure.notifications.notifier import Deliver, Notifier, Subscription
from tenure.notifications.webhook import Webhook
from tenure.recipients import Notification
from tenure.settings import Settings


class AppNotifications:
    """What a notifier needs from the app; it opens the backend when there is something to send."""

    def __init__(self, parts: Callable[[], Parts], guards: Guards) -> None:
        self._parts = parts
        self._guards = guards

    def completed(self, notice: Notice) -> Notice:
        jobs = self._parts().jobs
        record = None if notice.id is None or jobs is None else jobs.find(notice.id)
        return notice if record is None else with_record(notice, record)

    def may_send(self, name: str, rate: str | int) -> bool:
        return self._guards.rate(_parsed(rate), key=f"notification {name}").allow()


def notifier_for(
    parts: Callable[[], Parts], guards: Guards, clock: Clock, settings: Settings, listeners: Listeners
) -> Notifier:
    sources = AppNotifications(parts, guards)
    return Notifier(sources.completed, sources.may_send, clock, settings.sensitive, listeners.emit)


def subscription(
    name: str,
    notification: Notification,
    settings: Settings,
    enqueue: Callable[[str, RenderedNotice], object],
    find: Resolve = resolve,
) -> Subscription:
    """The notification with its channels; a notification that could never be delivered is refused."""
    channels: dict[str, Deliver] = {}
    try:
        parse_rate(_parsed(notification.rate))
        if notification.job is not None:
            channels["job"] = partial(enqueue, notification.job)
        if notification.webhook is not None:
            channels["webhook"] = Webhook(notification.webhook, settings.http, find).deliver
        if notification.mail:
            mailer = Mailer(settings.mail)
            mailer.check()
            channels["mail"] = partial(mailer.deliver, notification.mail)
    except (InvalidJob, SettingsError) as error:
        raise SettingsError(f"notification {name!r}: {error}") from error
    return Subscription(name, notification, channels)


def check_jobs(handlers: tuple[str, ...], define: Callable[[str], object]) -> None:
    """Refuse to start a worker while a notification names a handler that does not exist."""
    for handler in handlers:
        try:
            define(handler)
        except TenureError as error:
            raise SettingsError(f"a notification names a job that cannot be enqueued: {error}") from error


def _parsed(rate: str | int) -> str | int:
    """The rate; a whole number from the environment comes as text."""
    return int(rate) if isinstance(rate, str) and rate.isdecimal() else rate
