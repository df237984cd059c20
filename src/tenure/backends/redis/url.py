"""Opens `redis://`, `rediss://` and `unix://` URLs; imports the driver only then."""

from urllib.parse import SplitResult, parse_qsl, urlencode

from tenure.backends.contract import Backend
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("prefix", "timeout", "cluster", "eviction", "db", *_TLS)


def open_url(parts: SplitResult, clock: Clock) -> Backend:
    """The backend on this server; raises an error when it cannot be reached or its configuration may lose jobs."""
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check(given, parts.scheme)
    try:
        from tenure.backends.redis.backend import RedisBackend
        from tenure.backends.redis.connections import open_cluster, open_server
        from tenure.backends.redis.scripts import KeyNames, Scripts
        from tenure.backends.redis.server import RedisServer
    except ModuleNotFoundError as error:
        raise BackendUnavailable(f"{parts.scheme}:// needs a driver: pip install 'tenure[redis]' ({error})") from error
    driver = {name: value for name, value in given.items() if name in ("db", *_TLS)}
    url = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(driver)}"
    is_cluster = given.get("cluster") == "yes"
    client = (open_cluster if is_cluster else open_server)(url, float(given.get("timeout", "5")))
    try:
        RedisServer(client).check(allow_eviction=given.get("eviction") == "allowed")
    except BaseException:
        client.close()
        raise
    return RedisBackend(client, Scripts(client, clock), KeyNames(given.get("prefix", "tenure")), is_cluster)


def _check(given: dict[str, str], scheme: str) -> None:
    for name, value in given.items():
        if name not in _OPTIONS:
            raise UnknownBackend(f"unknown option {name!r} in the {scheme} URL; known: {', '.join(_OPTIONS)}")
        wrong = {
            "prefix": not value or not set("{}").isdisjoint(value),
            "timeout": not _is_positive(value),
            "cluster": value not in ("yes", "no"),
            "eviction": value not in ("allowed", "refused"),
        }.get(name, False)
        if wrong:
            raise UnknownBackend(f"option {name}={value!r} in the {scheme} URL must be {_MEANINGS[name]}")


_MEANINGS = {
    "prefix": "a word without braces, before every key",
    "timeout": "a number of seconds above 0",
    "cluster": "yes or no",
    "eviction": "allowed or refused",
}


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
