"""Recipients: who is told of what, and by which mail server, as values."""

import re
from string import Template
from typing import Any, Literal, get_args

from msgspec import Struct

Happening = Literal["success", "failure", "dead", "missed", "tick_failed"]
HAPPENINGS: tuple[Happening, ...] = get_args(Happening)
FACTS = (
    *("event", "id", "queue", "handler", "name", "reason", "error", "output", "attempt", "seconds", "worker"),
    *("schedule", "tick", "at", "left_out"),
)
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


class Mail(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The server that takes mail from us; with a password only over TLS."""

    host: str = ""
    """The mail server; empty sends none."""
    port: int = 587
    """Its port: usually 587 with `starttls`, 465 with `tls`, 25 with `none`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """When TLS begins: `starttls` after a greeting in the clear, `tls` at once, `none` never."""
    user: str | None = None
    """The name to log in with; none means no login."""
    password: str | None = None
    """Its password, best kept in a file: `TENURE_MAIL__PASSWORD_FILE`."""
    sender: str | None = None
    """The address that mail comes from; needed to send any."""
    certificates: str | None = None
    """A file of authorities to trust besides those of the system."""
    timeout: float = 30.0
    """How long handing over one mail may take."""

    def __post_init__(self) -> None:
        if self.sender is not None:
            check_address(self.sender, "mail.sender")
        if self.user is not None and self.security == "none":
            raise ValueError("mail.user would log in over a connection in the clear; set mail.security to starttls")
        if not self.timeout > 0:
            raise ValueError("mail.timeout must be more than 0 seconds")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Without the password."""
        return [(name, _hidden(name, getattr(self, name), ("password",))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"Mail({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Notification(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is told to whom: a job of ours, a webhook, people by mail, or several of them."""

    on: tuple[Happening, ...] = ("dead", "missed")
    """What is told: `success`, `failure` (of an attempt), `dead`, `missed` (a tick that nobody meant to leave out),
    `tick_failed`."""
    queues: tuple[str, ...] = ()
    """Only of jobs on these queues; empty means all."""
    handlers: tuple[str, ...] = ()
    """Only of jobs of these handlers; empty means all."""
    job: str | None = None
    """The handler of a job that is enqueued, and finds the notice in `ctx.meta["notice"]`."""
    webhook: str | None = None
    """The URL that the notice is posted to as JSON, as `http` permits; its host need not be in `http.allow`."""
    mail: tuple[str, ...] = ()
    """Addresses that the notice is mailed to."""
    subject: str | None = None
    """The subject of mails and `subject` of the JSON, with `$handler`, `$queue` and so on filled in."""
    text: str | None = None
    """The text of mails and `text` of the JSON, likewise."""
    rate: str | int = "10/min burst 5"
    """How many notices all workers together may send; what is left out is told with the next."""

    def __post_init__(self) -> None:
        if not (self.job or self.webhook or self.mail):
            raise ValueError("a notification needs a job, a webhook or mail to be told to")
        if not self.on:
            raise ValueError(f"a notification needs at least one of {', '.join(HAPPENINGS)} in on")
        for address in self.mail:
            check_address(address, "mail")
        for template in (self.subject, self.text):
            _check_template(template or "")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Without the webhook, whose path is often a secret."""
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
    if unknown := set(template.get_identifiers()) - set(FACTS):
        raise ValueError(f"${min(unknown)} is nothing that a template can tell; there are: {', '.join(FACTS)}")


def _hidden(name: str, value: Any, secrets: tuple[str, ...]) -> Any:
    return "…" if name in secrets and value is not None else value
