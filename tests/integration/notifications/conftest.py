"""Real servers that receive notifications: mail and HTTP."""

import ssl

import pytest
import trustme

from tenure.testing import FakeClock
from tests.support.http_server import Server, response
from tests.support.mail_server import MailServer

OK = response(body=b"ok")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def bundle(authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return str(tmp_path / "authority.pem")


@pytest.fixture
def certified(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def mail_server():
    """Starts mail servers, and stops them."""
    boxes = []

    def start(*arguments, **options):
        boxes.append(MailServer(*arguments, **options))
        return boxes[-1]

    yield start
    for box in boxes:
        box.stop()


@pytest.fixture
def website():
    """Starts web servers, and stops them."""
    servers = []

    def start(answer=OK):
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
