"""A mail server on loopback, on the standard library alone: it accepts mail, keeps it, and can misbehave."""

import base64
import socketserver
import ssl
import threading
import time
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from queue import Queue


class MailServer(socketserver.ThreadingTCPServer):
    """`tls` is a server's context; with `at_once` TLS begins before the greeting. `login` is the one user it knows."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, tls: ssl.SSLContext | None = None, *, at_once: bool = False, login: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.tls, self.at_once, self.login = tls, at_once, login
        self.port = self.server_address[1]
        self.mails: Queue[EmailMessage] = Queue()
        self.envelopes: list[list[str]] = []
        self.is_mute = self.drips = False
        self.refusal: bytes | None = None
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        try:
            if self.server.tls and self.server.at_once:
                self._secure()
            while self.server.drips:
                self._say(b"220-wait a moment")  # a greeting without end, each line in time
                time.sleep(0.01)
            self._say(b"220 test")
            if self.server.is_mute:
                self.rfile.read()  # says nothing more, until the other side has had enough
                return
            self._converse()
        except OSError:
            return
        finally:
            self.connection.close()  # the server closes only the socket that it gave us

    def _converse(self) -> None:
        envelope: list[str] = []
        is_known = self.server.login is None
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"EHLO":
                self._say(*self._abilities())
            elif word == b"STAR":
                self._say(b"220 go on")
                self._secure()
            elif word == b"AUTH":
                is_known = self._is_known(line)
                self._say(b"235 welcome" if is_known else b"535 who are you?")
            elif word in (b"MAIL", b"RCPT"):
                envelope.append(line.strip().decode())
                self._say(self.server.refusal or (b"250 well" if is_known else b"530 log in first"))
            elif word == b"DATA":
                self._say(b"354 go on")
                self._take(envelope)
                self._say(b"250 taken")
            else:
                self._say(b"221 good-bye" if word == b"QUIT" else b"250 well")

    def _abilities(self) -> list[bytes]:
        offers_tls = self.server.tls and not isinstance(self.connection, ssl.SSLSocket)
        return [b"250-test", *([b"250-STARTTLS"] if offers_tls else []), b"250 AUTH PLAIN"]

    def _is_known(self, line: bytes) -> bool:
        said = base64.b64decode(line.split()[2]).decode()
        return said.replace("\0", ":").lstrip(":") == self.server.login

    def _take(self, envelope: list[str]) -> None:
        data = b""
        while (line := self.rfile.readline()) != b".\r\n":
            data += line.removeprefix(b".") if line.startswith(b"..") else line
        self.server.envelopes.append(envelope)
        self.server.mails.put(message_from_bytes(data, policy=default))

    def _secure(self) -> None:
        assert self.server.tls
        self.connection = self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.setup()

    def _say(self, *lines: bytes) -> None:
        for line in lines:
            self.wfile.write(line + b"\r\n")
