"""What messages and traces show of a URL: where it leads, and no secret."""

import pytest

from tenure.backends.url import server_of, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:CANARY@host:5432/shop?sslmode=require", "postgresql://host:5432/shop"),
        ("redis://ada:abc@CANARY@host/0", "redis://host/0"),
        ("sqlite:///srv/a=b.db", "sqlite:///srv/a=b.db"),
        ("servicebus:Endpoint=sb://host/;SharedAccessKey=CANARY", "servicebus:Endpoint=sb://host/"),
        ("servicebus:SharedAccessKey=CANARY;Endpoint=sb://host/", "servicebus:Endpoint=sb://host/"),
        ("servicebus:SharedAccessKey=CANARY", "servicebus:"),
        ("ada:CANARY@host/shop", "ada:host/shop"),
        ("jobs.db", "jobs.db"),
    ],
)
def test_a_url_is_shown_without_user_password_and_options(url, shown):
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("redis://:a,b@queue.internal/0", ("queue.internal", None)),
        ("redis://:secret@queue.internal:6390/0", ("queue.internal", 6390)),
        ("postgresql://app@[::1]/shop", ("::1", None)),
        ("servicebus://name:k%2B@shop.servicebus.windows.net", ("shop.servicebus.windows.net", None)),
        ("unix:///run/redis%20one.sock?db=1", ("/run/redis one.sock", None)),
        ("postgresql://one:5432,two:5433/shop", None),
        ("mysql://one,two/shop", None),
        ("postgresql:///shop?host=/run/postgresql", None),
        ("sqlite:///jobs.db", None),
        ("memory://", None),
    ],
)
def test_a_url_names_its_server_if_there_is_one(url, server):
    assert server_of(url) == server
