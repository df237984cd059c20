"""Notifications and the mail server, as settings: who is notified of what."""

import re
from string import Template
from typing import Any, Literal, get_args

from msgspec import Struct

Trigger = Literal["success", "failure", "dead", "missed", "tick_failed"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
TEMPLATE_FIELDS = (
    *("event", "id", "queue", "handler", "name", "reason", "error", "output", "attempt", "seconds", "worker"),
    *("schedule", "tick", "at", "left_out"),
)
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


class Mail(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The server that sends our mail; a password is sent over TLS only."""

    host: str = ""
    """The mail server; empty sends none."""
    port: int = 587
    """The port: usually 587 with `starttls`, 465 with `tls`, 25 with `none`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """When TLS begins: `starttls` after an unencrypted greeting, `tls` at once, `none` never."""
    user: str | None = None
    """The user name for the login; none means no login."""
    password: str | None = None
    """The password; put it in a file and set `TENURE_MAIL__PASSWORD_FILE`."""
    sender: str | None = None
    """The address of the sender; required to send mail."""
    certificates: str | None = None
    """A file of certificate authorities to trust in addition to those of the system."""
    timeout: float = 30.0
    """How long sending one mail may take."""

    def __post_init__(self) -> None:
        if self.sender is not None:
            check_address(self.sender, "mail.sender")
        if self.user is not None and self.security == "none":
            raise ValueError("mail.user would log in over an unencrypted connection; set mail.security to starttls")
        if not self.timeout > 0:
            raise ValueError("mail.timeout must be more than 0 seconds")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide the password."""
        return [(name, _hidden(name, getattr(self, name), ("password",))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"Mail({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Notification(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A notice that goes to a job, a webhook, mail addresses, or several of them."""

    on: tuple[Trigger, ...] = ("dead", "missed")
    """What causes a notice: `success`, `failure` (of an attempt), `dead`, `missed` (a tick that was skipped
    unintentionally), `tick_failed`."""
    queues: tuple[str, ...] = ()
    """Only for jobs on these queues; empty means all."""
    handlers: tuple[str, ...] = ()
    """Only for jobs of these handlers; empty means all."""
    job: str | None = None
    """The handler of a job that is enqueued for each notice; the notice is in its `ctx.meta["notice"]`."""
    webhook: str | None = None
    """The URL to which the notice is posted as JSON, within the limits of `http`; the host need not be in
    `http.allow`."""
    mail: tuple[str, ...] = ()
    """Addresses that the notice is mailed to."""
    subject: str | None = None
    """The subject of mails and `subject` of the JSON, with `$handler`, `$queue` and so on filled in."""
    text: str | None = None
    """The text of mails and `text` of the JSON, filled in the same way."""
    rate: str | int = "10/min burst 5"
    """How many notices all workers together may send; the next notice says how many were left out."""

    def __post_init__(self) -> None:
        if not (self.job or self.webhook or self.mail):
            raise ValueError("a notification needs a recipient: a job, a webhook or mail")
        if not self.on:
            raise ValueError(f"a notification needs at least one of {', '.join(TRIGGERS)} in on")
        for address in self.mail:
            check_address(address, "mail")
        for template in (self.subject, self.text):
            _check_template(template or "")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide the webhook, because its path is often a secret."""
        return [(name, _hidden(name, getattr(self, name), ("webhook",))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"Notification({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


def check_address(address: str, what: str) -> None:
    if not _ADDRESS.fullmatch(address) or not address.isprintable():
        raise ValueError(f"{what}: {address!r:.100} is not an address such as 'ops@example.com'")


def _check_template(text: str) -> None:
    template = Template(text)
    if not template.is_valid():
        raise ValueError(f"{text!r:.100} is not a template: write $$ for a dollar sign")
    if unknown := set(template.get_identifiers()) - set(TEMPLATE_FIELDS):
        raise ValueError(f"${min(unknown)} is not a field of a template; the fields are: {', '.join(TEMPLATE_FIELDS)}")


def _hidden(name: str, value: Any, secrets: tuple[str, ...]) -> Any:
    return "…" if name in secrets and value is not None else value
