"""Webhook: sends a rendered notice as JSON to one URL, by the rules of `url` jobs.

The address is checked, redirects are not followed, and there is one deadline.
"""

from msgspec import structs

from tenure.builtin.url import Request, Sender
from tenure.builtin.url_destination import Resolve, parse_url, resolve
from tenure.definition.context import Context
from tenure.errors import NotDelivered, Refused, RequestFailed, Retry, SettingsError
from tenure.notifications.notice import RenderedNotice
from tenure.permissions import Http


class Webhook:
    """The setting that names the URL allows its host; all other rules of `http` apply."""

    def __init__(self, url: str, permitted: Http, find: Resolve = resolve) -> None:
        try:
            destination = parse_url(url)
            self._sender = Sender(structs.replace(permitted, allow=(destination.host,)), find)
            self._sender.authorise(Request(url=url, method="POST", json={}))
        except (Refused, ValueError) as error:
            raise SettingsError(f"the webhook cannot be used: {error}") from error
        self._url = url
        self._host = destination.host

    def deliver(self, notice: RenderedNotice) -> None:
        context = Context(id="", handler="url", payload=None, queue="")
        try:
            self._sender.perform(context, Request(url=self._url, method="POST", json=notice.members()))
        except (Refused, RequestFailed, Retry) as error:
            raise NotDelivered(f"the webhook at {self._host!r} did not accept the notice: {error}") from error
