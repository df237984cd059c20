"""Opening `beanstalk://host:port`."""

import re
from urllib.parse import SplitResult, parse_qsl

from tenure.backends.beanstalk.backend import BeanstalkBackend
from tenure.backends.beanstalk.pool import Pool
from tenure.backends.beanstalk.tubes import Tubes
from tenure.clock import Clock
from tenure.errors import UnknownBackend

_PORT = 11300
_PATIENCE = 10.0
_KNOWN = ("prefix", "ttr")
_PREFIX = re.compile(r"([A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,99})?")


def open_url(parts: SplitResult, clock: Clock) -> BeanstalkBackend:
    """`?prefix=` goes before the name of every tube, `?ttr=` is the longest that a silent worker keeps a job."""
    chosen = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in chosen:
        if name not in _KNOWN:
            raise UnknownBackend(f"unknown option {name!r} in the beanstalk URL; known: {', '.join(_KNOWN)}")
    prefix, ttr = chosen.get("prefix", "tenure."), chosen.get("ttr", "15")
    if not _PREFIX.fullmatch(prefix):
        raise UnknownBackend(f"option prefix={prefix!r} in the beanstalk URL holds characters that tubes cannot have")
    if not (ttr.isdecimal() and 1 <= int(ttr) <= 86_400):
        raise UnknownBackend(f"option ttr={ttr!r} in the beanstalk URL must be whole seconds, from 1 to 86400")
    if parts.path not in ("", "/") or parts.username or not parts.hostname:
        raise UnknownBackend("a beanstalk URL is beanstalk://host:11300, with the options prefix and ttr")
    pool = Pool((parts.hostname, parts.port or _PORT), _PATIENCE)
    return BeanstalkBackend(pool, Tubes(prefix), clock, int(ttr))
