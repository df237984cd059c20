"""Webhooks: a letter as JSON to one URL, by the rules of `url` jobs: judged address, no redirects, one deadline."""

from msgspec import structs

from tenure.builtin.url.connection import Resolve, resolve
from tenure.builtin.url.handler import Request, Sender
from tenure.builtin.url.target import parse
from tenure.definition.context import Context
from tenure.errors import NotDelivered, Refused, RequestFailed, Retry, SettingsError
from tenure.notifications.notice import Letter
from tenure.permissions import Http


class Webhook:
    """Whoever named the URL in the settings has allowed its host; all else that `http` says holds."""

    def __init__(self, url: str, permitted: Http, find: Resolve = resolve) -> None:
        try:
            target = parse(url)
            self._sender = Sender(structs.replace(permitted, allow=(target.host,)), find)
            self._sender.authorise(Request(url=url, method="POST", json={}))
        except (Refused, ValueError) as error:
            raise SettingsError(f"the webhook cannot be used: {error}") from error
        self._url = url
        self._host = target.host

    def deliver(self, letter: Letter) -> None:
        context = Context(id="", handler="url", payload=None, queue="")
        try:
            self._sender.perform(context, Request(url=self._url, method="POST", json=letter.members()))
        except (Refused, RequestFailed, Retry) as error:
            raise NotDelivered(f"the webhook at {self._host!r} was not told: {error}") from error
