"""Opens `beanstalk://host:port`."""

import re
from urllib.parse import SplitResult, parse_qsl

from tenure.backends.beanstalk.backend import BeanstalkBackend
from tenure.backends.beanstalk.connection import ConnectionPool
from tenure.backends.beanstalk.protocol import Tubes
from tenure.clock import Clock
from tenure.errors import UnknownBackend

_DEFAULT_PORT = 11300
_TIMEOUT = 10.0
_OPTIONS = ("prefix", "ttr")
_VALID_PREFIX = re.compile(r"([A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,99})?")


def open_url(parts: SplitResult, clock: Clock) -> BeanstalkBackend:
    """`?prefix=` starts the name of every tube; `?ttr=` is the time after which a silent worker loses a job."""
    chosen = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in chosen:
        if name not in _OPTIONS:
            raise UnknownBackend(f"unknown option {name!r} in the beanstalk URL; known: {', '.join(_OPTIONS)}")
    prefix, ttr = chosen.get("prefix", "tenure."), chosen.get("ttr", "15")
    if not _VALID_PREFIX.fullmatch(prefix):
        raise UnknownBackend(f"option prefix={prefix!r} in the beanstalk URL has characters that tubes cannot have")
    if not (ttr.isdecimal() and 1 <= int(ttr) <= 86_400):
        raise UnknownBackend(f"option ttr={ttr!r} in the beanstalk URL must be whole seconds, from 1 to 86400")
    if parts.path not in ("", "/") or parts.username or not parts.hostname:
        raise UnknownBackend("a beanstalk URL is beanstalk://host:11300, with the options prefix and ttr")
    pool = ConnectionPool((parts.hostname, parts.port or _DEFAULT_PORT), _TIMEOUT)
    return BeanstalkBackend(pool, Tubes(prefix), clock, int(ttr))
