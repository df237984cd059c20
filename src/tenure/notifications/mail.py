"""Mail: a letter handed to a mail server within one deadline."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tenure.errors import NotDelivered, SettingsError
from tenure.notifications.notice import Letter
from tenure.recipients import Mail

if TYPE_CHECKING:
    import smtplib
    import ssl
    from email.message import EmailMessage


class Postman:
    """A connection of its own for each letter: they are few."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail

    def check(self) -> None:
        if not self._mail.host or self._mail.sender is None:
            raise SettingsError("mail can be sent only with mail.host and mail.sender: set both")

    def deliver(self, addresses: Sequence[str], letter: Letter) -> None:
        import smtplib  # with email and ssl, 20 ms that only those wait for who send mail

        composed = _composed(letter, self._mail.sender or "", addresses)
        try:
            with self._connected() as connection:
                connection.send_message(composed, self._mail.sender, list(addresses))
        except (OSError, smtplib.SMTPException) as error:  # an smtplib.SMTPException is one of both in some releases
            where = f"{self._mail.host}:{self._mail.port}"
            raise NotDelivered(f"the mail server {where} did not take the mail: {_story(error)}") from error

    @contextmanager
    def _connected(self) -> "Iterator[smtplib.SMTP]":
        """Ready to send; when the time is over the connection is cut, whatever it is at."""
        import smtplib

        over = threading.Event()
        connection: smtplib.SMTP = _made(self._mail, self._tls if self._mail.security == "tls" else None)

        def cut() -> None:
            over.set()
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._mail.timeout, cut)
        timer.daemon = True
        timer.start()
        try:
            connection.connect(self._mail.host, self._mail.port)
            self._greet(connection)
            yield connection
            with suppress(OSError, smtplib.SMTPException):  # it has taken the mail, and may say good-bye as it likes
                connection.quit()
        except (OSError, smtplib.SMTPException) as error:
            if over.is_set():
                raise TimeoutError(f"it took longer than {self._mail.timeout:g} s") from error
            raise
        finally:
            timer.cancel()
            connection.close()

    def _greet(self, connection: "smtplib.SMTP") -> None:
        if self._mail.security == "starttls":
            connection.starttls(context=self._tls)
        if self._mail.user is not None:
            connection.login(self._mail.user, self._mail.password or "")

    @cached_property
    def _tls(self) -> "ssl.SSLContext":
        import ssl

        context = ssl.create_default_context()
        if self._mail.certificates:
            context.load_verify_locations(self._mail.certificates)
        return context


def _made(mail: Mail, tls: "ssl.SSLContext | None") -> "smtplib.SMTP":
    """Not connected yet: once it is there, it can be cut."""
    import smtplib

    ours = socket.gethostname()  # rather than what smtplib would ask a resolver for, without a deadline
    name = ours if "." in ours else "[127.0.0.1]"
    if tls is None:
        connection = smtplib.SMTP(local_hostname=name, timeout=mail.timeout)
    else:
        connection = smtplib.SMTP_SSL(local_hostname=name, timeout=mail.timeout, context=tls)
    connection._host = mail.host  # type: ignore[attr-defined]  # TLS checks it, and only its constructor sets it
    return connection


def _composed(letter: Letter, sender: str, addresses: Sequence[str]) -> "EmailMessage":
    from email.message import EmailMessage
    from email.utils import formatdate, make_msgid

    message = EmailMessage()
    message["From"] = sender
    message["To"] = ", ".join(addresses)
    message["Subject"] = letter.subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # so that nobody's absence is told to a machine
    message.set_content(letter.text)
    return message


def _story(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
