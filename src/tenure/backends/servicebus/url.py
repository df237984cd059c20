"""Opens `servicebus://…`: a connection string, a key in the URL, or an identity; imports the SDK only then."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote

from tenure.backends.contract import Backend
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient

_OPTIONS = ("prefix", "levels", "queues")
_VALID_PREFIX = re.compile(r"[A-Za-z0-9._/-]{0,100}")
_VALID_LEVELS = re.compile(r"[0-9](,[0-9])*")
_ADMIN_RETRIES: dict[str, Any] = {"retry_total": 0, "connection_timeout": 5, "read_timeout": 5}
_CLIENT_RETRIES: dict[str, Any] = {"retry_total": 2, "retry_backoff_factor": 0.2, "retry_backoff_max": 5}


def open_url(parts: SplitResult, clock: Clock) -> Backend:
    """`servicebus:Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…`, as the portal shows it,
    `servicebus://name:key@namespace`, or `servicebus://namespace` for an identity from azure-identity."""
    chosen = _options(parts)
    try:
        from tenure.backends.servicebus.backend import ServiceBusBackend
        from tenure.backends.servicebus.namespace import Namespace
    except ModuleNotFoundError as error:
        raise BackendUnavailable(f"servicebus:// needs the SDK: pip install 'tenure[servicebus]' ({error})") from error
    levels = [int(level) for level in chosen.get("levels", "").split(",") if level]
    queues = [queue for queue in chosen.get("queues", "").split(",") if queue]
    namespace = Namespace(_client(parts), chosen.get("prefix", ""), levels, queues, _admin(parts))
    return ServiceBusBackend(namespace, clock)


def _admin(parts: SplitResult) -> Callable[[], Any] | None:
    """A function that opens a client with the right to manage queues; emulators have none."""
    if "UseDevelopmentEmulator=true" in parts.path:
        return None

    def open_admin() -> Any:
        from azure.servicebus.management import ServiceBusAdministrationClient as Administration

        if not parts.netloc or (parts.username and parts.password):
            return Administration.from_connection_string(_full_connection_string(parts), **_ADMIN_RETRIES)
        from azure.identity import DefaultAzureCredential  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return Administration(parts.hostname or "", DefaultAzureCredential(), **_ADMIN_RETRIES)

    return open_admin


def _client(parts: SplitResult) -> "ServiceBusClient":
    from azure.servicebus import ServiceBusClient

    if not parts.netloc or (parts.username and parts.password):
        return ServiceBusClient.from_connection_string(_full_connection_string(parts), **_CLIENT_RETRIES)
    try:
        from azure.identity import DefaultAzureCredential  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            "a Service Bus URL without a key uses an identity: pip install azure-identity, or give a connection string"
        ) from error
    return ServiceBusClient(parts.hostname or "", DefaultAzureCredential(), **_CLIENT_RETRIES)


def _full_connection_string(parts: SplitResult) -> str:
    if not parts.netloc:
        return _connection_string(parts.path)
    access = f"SharedAccessKeyName={unquote(parts.username or '')};SharedAccessKey={unquote(parts.password or '')}"
    return f"Endpoint=sb://{parts.hostname or ''};{access}"


def _connection_string(text: str) -> str:
    if not text.startswith("Endpoint=sb://") or "SharedAccessKey" not in text:
        raise UnknownBackend(
            "a Service Bus URL is servicebus:Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=… (the connection "
            "string of the portal), servicebus://name:key@namespace, or servicebus://namespace for an identity"
        )
    return text


def _options(parts: SplitResult) -> dict[str, str]:
    chosen = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in chosen.items():
        if name not in _OPTIONS:
            raise UnknownBackend(f"unknown option {name!r} in the servicebus URL; known: {', '.join(_OPTIONS)}")
        if name == "prefix" and not _VALID_PREFIX.fullmatch(value):
            raise UnknownBackend(
                f"option prefix={value!r} in the servicebus URL has characters that queues cannot have"
            )
        if name == "levels" and not _VALID_LEVELS.fullmatch(value):
            raise UnknownBackend(f"option levels={value!r} in the servicebus URL must be priorities, such as 8,5,2")
    return chosen
