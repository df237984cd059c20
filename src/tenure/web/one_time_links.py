"""OneTimeLinks: each opens the dashboard once, within some minutes; they live in the process that made them."""

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

LINK_SECONDS = 300.0
_MAX_LINKS = 100

LinkState = Literal["valid", "used", "expired", "unknown"]


class OneTimeLinks:
    """Knows the links by the hash of their token, also those that were used, so that it can tell what happened."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._links: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()  # hash → end, whether it was used
        self._lock = threading.Lock()

    def new(self) -> str:
        """The token of a new link."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links[_hash(token)] = (self._now() + LINK_SECONDS, False)
            while len(self._links) > _MAX_LINKS:
                self._links.popitem(last=False)
        return token

    def use(self, token: str) -> LinkState:
        """Use a link up; only one caller gets `valid`."""
        key = _hash(token)
        with self._lock:
            if key not in self._links:
                return "unknown"
            until, is_used = self._links[key]
            if is_used:
                return "used"
            if self._now() >= until:
                return "expired"
            self._links[key] = (until, True)
            return "valid"

    def give_back(self, token: str) -> None:
        """A link that was used, but did not open the dashboard because the backend was down, works again."""
        with self._lock:
            until, _ = self._links[_hash(token)]
            self._links[_hash(token)] = (until, False)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
