"""Mailer: sends a rendered notice by e-mail, within one deadline."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tenure.errors import NotDelivered, SettingsError
from tenure.notifications.notice import RenderedNotice
from tenure.recipients import Mail

if TYPE_CHECKING:
    import smtplib
    import ssl
    from email.message import EmailMessage


_CUT_AGAIN_SECONDS = 0.05


class Mailer:
    """Opens one connection for each mail: mails are few."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail

    def check(self) -> None:
        if not self._mail.host or self._mail.sender is None:
            raise SettingsError("to send mail, set both mail.host and mail.sender")

    def deliver(self, addresses: Sequence[str], notice: RenderedNotice) -> None:
        import smtplib  # imported on use: with email and ssl it takes 20 ms

        composed = _compose(notice, self._mail.sender or "", addresses)
        try:
            with self._connect() as connection:
                connection.send_message(composed, self._mail.sender, list(addresses))
        except (OSError, smtplib.SMTPException) as error:  # in some releases SMTPException is an OSError
            where = f"{self._mail.host}:{self._mail.port}"
            raise NotDelivered(
                f"the mail server {where} did not accept the mail: {type(error).__name__}: {error}"
            ) from error

    @contextmanager
    def _connect(self) -> "Iterator[smtplib.SMTP]":
        """A connection that is ready to send; a timer closes it when the time is up."""
        import smtplib

        time_up, has_ended = threading.Event(), threading.Event()
        connection: smtplib.SMTP = _create(self._mail, self._tls if self._mail.security == "tls" else None)

        def cut() -> None:
            """Try until it succeeds: while the client connects or starts TLS, there is no socket to shut down."""
            time_up.set()
            while not (_shut_down(connection.sock) or has_ended.wait(_CUT_AGAIN_SECONDS)):
                pass

        timer = threading.Timer(self._mail.timeout, cut)
        timer.daemon = True
        timer.start()
        try:
            connection.connect(self._mail.host, self._mail.port)
            self._log_in(connection)
            yield connection
            with suppress(OSError, smtplib.SMTPException):  # the server has accepted the mail already
                connection.quit()
        except (OSError, smtplib.SMTPException) as error:
            if time_up.is_set():
                raise TimeoutError(f"it took longer than {self._mail.timeout:g} s") from error
            raise
        finally:
            has_ended.set()
            timer.cancel()
            connection.close()

    def _log_in(self, connection: "smtplib.SMTP") -> None:
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


def _create(mail: Mail, tls: "ssl.SSLContext | None") -> "smtplib.SMTP":
    """Not connected yet, so that the timer can close it while it connects."""
    import smtplib

    host = socket.gethostname()  # smtplib would ask a resolver, without a deadline
    name = host if "." in host else "[127.0.0.1]"
    if tls is None:
        connection = smtplib.SMTP(local_hostname=name, timeout=mail.timeout)
    else:
        connection = smtplib.SMTP_SSL(local_hostname=name, timeout=mail.timeout, context=tls)
    connection._host = mail.host  # type: ignore[attr-defined]  # TLS needs it, and only the constructor sets it
    return connection


def _shut_down(sock: socket.socket | None) -> bool:
    """Whether there was a connection to shut down."""
    if sock is None:
        return False
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _compose(notice: RenderedNotice, sender: str, addresses: Sequence[str]) -> "EmailMessage":
    from email.message import EmailMessage
    from email.utils import formatdate, make_msgid

    message = EmailMessage()
    message["From"] = sender
    message["To"] = ", ".join(addresses)
    message["Subject"] = notice.subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # so that mail servers send no out-of-office replies
    message.set_content(notice.text)
    return message
