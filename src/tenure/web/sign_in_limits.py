"""SignInLimits: after some wrong passwords an address or a user must wait, longer each time.

The counts are kept in this process and are bounded; they are gone when it ends.
"""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

FREE_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 3600.0
_FORGET_SECONDS = 86_400.0
_MAX_KEYS = 10_000


@dataclass
class _Count:
    wrong: int = 0
    until: float = 0.0
    at: float = 0.0


@dataclass
class SignInLimits:
    """Counts wrong passwords by address and by user; every fifth in a row doubles the wait."""

    now: Callable[[], float] = time.monotonic
    _counts: OrderedDict[tuple[str, str], _Count] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, address: str, user: str) -> float:
        """Count an attempt, which is wrong until `succeeded` is called; returns how many seconds it must wait, or 0.

        Attempts are counted before the password is checked, so that many at once get no further than one by one.
        """
        with self._lock:
            counts = [self._count(key) for key in _keys(address, user)]
            wait = max(each.until - self.now() for each in counts)
            if wait > 0:
                return wait
            for each in counts:
                each.wrong += 1
                each.at = self.now()
                rounds, rest = divmod(each.wrong, FREE_ATTEMPTS)
                if not rest:
                    each.until = self.now() + min(FIRST_WAIT_SECONDS * 2.0 ** (rounds - 1), _LONGEST_WAIT_SECONDS)
            return 0.0

    def _count(self, key: tuple[str, str]) -> _Count:
        count = self._counts.pop(key, None)
        if count is None or self.now() - count.at > _FORGET_SECONDS:
            count = _Count(at=self.now())
        self._counts[key] = count
        while len(self._counts) > _MAX_KEYS:
            self._counts.popitem(last=False)
        return count

    def succeeded(self, address: str, user: str) -> None:
        """The password was right: the address and the user begin anew."""
        with self._lock:
            for key in _keys(address, user):
                self._counts.pop(key, None)


def _keys(address: str, user: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("address", _network(address)), ("user", user[:200])


def _network(address: str) -> str:
    """An address; of IPv6 the network of 64 bits, which one customer has to themselves."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
