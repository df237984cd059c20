"""What a message shows of a URL: where it leads, and no secret."""

import pytest

from tenure.backends.url import without_secrets


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
