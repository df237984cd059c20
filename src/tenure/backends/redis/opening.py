"""Opening `redis://`, `rediss://` and `unix://` URLs; the driver is imported only then."""

from urllib.parse import SplitResult, parse_qsl, urlencode

from tenure.backends.contract import Backend
from tenure.clock import Clock
from tenure.errors import BackendUnavailable, UnknownBackend

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("prefix", "timeout", "cluster", "eviction", "db", *_TLS)


def open_url(parts: SplitResult, clock: Clock) -> Backend:
    """The backend on this server, which must be there and be fit to keep jobs."""
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check(given, parts.scheme)
    try:
        from tenure.backends.redis.backend import RedisBackend
        from tenure.backends.redis.cluster import open_cluster
        from tenure.backends.redis.connections import open_connections
        from tenure.backends.redis.facts import RedisFacts
        from tenure.backends.redis.names import Names
        from tenure.backends.redis.scripts import Scripts
    except ModuleNotFoundError as error:
        raise BackendUnavailable(f"{parts.scheme}:// needs a driver: pip install 'tenure[redis]' ({error})") from error
    driver = {name: value for name, value in given.items() if name in ("db", *_TLS)}
    url = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(driver)}"
    is_cluster = given.get("cluster") == "yes"
    line = (open_cluster if is_cluster else open_connections)(url, float(given.get("timeout", "5")))
    try:
        RedisFacts(line).check(allow_eviction=given.get("eviction") == "allowed")
    except BaseException:
        line.close()
        raise
    return RedisBackend(line, Scripts(line, clock), Names(given.get("prefix", "tenure")), is_cluster)


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
