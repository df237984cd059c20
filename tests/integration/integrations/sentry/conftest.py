"""A client of Sentry whose transport keeps what it would send."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from tenure import Tenure
from tenure.integrations.sentry import TenureIntegration


class KeptEnvelopes(Transport):
    """The items of envelopes, as Sentry would receive them."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            payload = item.payload.json
            if payload is not None:
                self.items.append({"kind": item.headers["type"], **payload})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["kind"] == kind]

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.of("event")

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return self.of("transaction")

    @property
    def check_ins(self) -> list[dict[str, Any]]:
        return self.of("check_in")


Start = Callable[..., KeptEnvelopes]


@pytest.fixture
def app() -> Iterator[Tenure]:
    with Tenure("memory://") as app:
        yield app


@pytest.fixture
def start(app: Tenure) -> Iterator[Start]:
    """Starts Sentry with the integration and these options; options of the client are in `client`."""

    def start(client: dict[str, Any] | None = None, **options: Any) -> KeptEnvelopes:
        transport = KeptEnvelopes()
        given = {"dsn": "http://key@127.0.0.1:9/1", "traces_sample_rate": 1.0, **(client or {})}
        sentry_sdk.init(
            transport=transport,
            default_integrations=False,
            integrations=[LoggingIntegration(), TenureIntegration(app, **options)],
            **given,
        )
        return transport

    with sentry_sdk.isolation_scope():
        yield start
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def sentry(start: Start) -> KeptEnvelopes:
    return start()
