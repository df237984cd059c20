"""Builtins: the built-in handlers of one app, with the permissions from its settings."""

from collections.abc import Mapping

from tenure.builtin.closure import closure_handler
from tenure.builtin.command import Commands, command_handler
from tenure.builtin.event import Subscribers, event_handler
from tenure.builtin.shell import shell_handler
from tenure.builtin.url import MISSING_EXTRA, has_extra, url_handler
from tenure.definition.handler import Handler
from tenure.permissions import Command, Event, Http, Shell


class Builtins:
    """The app adds to `commands` and `subscribers` while it is being defined."""

    def __init__(self, command: Mapping[str, Command], shell: Shell, event: Event, http: Http) -> None:
        self.commands = Commands(command)
        self.subscribers = Subscribers(event)
        self._shell = shell
        self._http = http
        self.missing = {} if has_extra() else {"url": MISSING_EXTRA}  # why a handler is not available here

    def handlers(self, max_retries: int) -> list[Handler]:
        handlers = [
            command_handler(self.commands),
            shell_handler(self._shell),
            closure_handler(),
            event_handler(self.subscribers),
            *([] if self.missing else [url_handler(self._http)]),
        ]
        for handler in handlers:
            handler.defaults["max_retries"] = max_retries
        return handlers
