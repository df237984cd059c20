"""Notifying: the notifications of an app, from its settings and its code, wired to what it has."""

from collections.abc import Callable
from functools import partial

from tenure.app.guarding import Guards
from tenure.backends.asking import Inspectable
from tenure.backends.contract import Backend
from tenure.builtin.url.connection import Resolve, resolve
from tenure.errors import InvalidJob, SettingsError, TenureError
from tenure.guards.rate import parse
from tenure.notifications.mail import Postman
from tenure.notifications.notice import Letter, Notice, with_record
from tenure.notifications.notifier import Deliver, Subscription
from tenure.notifications.webhook import Webhook
from tenure.recipients import Notification
from tenure.settings import Settings


class AppSurroundings:
    """An app as its notifier sees it; nothing is opened until there is something to tell."""

    def __init__(self, backend: Callable[[], Backend], guards: Guards) -> None:
        self._backend = backend
        self._guards = guards

    def completed(self, notice: Notice) -> Notice:
        backend = self._backend()
        record = backend.find(notice.id) if notice.id is not None and isinstance(backend, Inspectable) else None
        return notice if record is None else with_record(notice, record)

    def may_send(self, name: str, rate: str | int) -> bool:
        return self._guards.rate(_plain(rate), key=f"notification {name}").allow()


def subscription(
    name: str,
    notification: Notification,
    settings: Settings,
    enqueue: Callable[[str, Letter], object],
    find: Resolve = resolve,
) -> Subscription:
    """The notification with its ways; what could never be delivered is refused here."""
    ways: dict[str, Deliver] = {}
    try:
        parse(_plain(notification.rate))
        if notification.job is not None:
            ways["job"] = partial(enqueue, notification.job)
        if notification.webhook is not None:
            ways["webhook"] = Webhook(notification.webhook, settings.http, find).deliver
        if notification.mail:
            postman = Postman(settings.mail)
            postman.check()
            ways["mail"] = partial(postman.deliver, notification.mail)
    except (InvalidJob, SettingsError) as error:
        raise SettingsError(f"notification {name!r}: {error}") from error
    return Subscription(name, notification, ways)


def check_jobs(handlers: tuple[str, ...], define: Callable[[str], object]) -> None:
    """Refuse to work while a notification names a handler that is not there."""
    for handler in handlers:
        try:
            define(handler)
        except TenureError as error:
            raise SettingsError(f"a notification names a job that cannot be enqueued: {error}") from error


def _plain(rate: str | int) -> str | int:
    """A whole number that came as text, as in the environment."""
    return int(rate) if isinstance(rate, str) and rate.isdecimal() else rate
