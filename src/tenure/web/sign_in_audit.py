"""SignInAudit: writes who signed in and out, and who was refused, to the audit log.

Strangers must not be able to fill the log: of the refused sign-ins, a few a minute are written, with the number of
those that were left out.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from tenure.app.dashboard.core import Dashboard
from tenure.redaction import one_line
from tenure.web.sessions import Session

logger = logging.getLogger(__name__)

SIGN_IN = "sign-in"
SIGN_OUT = "sign-out"
REFUSED_PER_MINUTE = 5
_MAX_NAME = 80  # characters of a name that a stranger gave


class SignInAudit:
    """The record of a sign-in has the id of its session."""

    def __init__(self, dashboard: Dashboard, now: Callable[[], float] = time.monotonic) -> None:
        self._trail = dashboard.trail
        self._now = now
        self._written: deque[float] = deque(maxlen=REFUSED_PER_MINUTE)
        self._left_out = 0
        self._lock = threading.Lock()

    def signed_in(self, session: Session, address: str, means: str) -> None:
        self._write(session.user, SIGN_IN, f"from {address}, with a {means}", id=session.id)

    def signed_out(self, session: Session) -> None:
        """Every process that shares the audit log sees by this record that the session has ended."""
        self._write(session.user, SIGN_OUT, "", id=_end_id(session.id))

    def has_ended(self, session: str) -> bool:
        return self._trail.find(_end_id(session)) is not None

    def refused(self, name: str, address: str, why: str) -> None:
        with self._lock:
            is_full = len(self._written) == REFUSED_PER_MINUTE and self._now() - self._written[0] < 60
            if is_full:
                self._left_out += 1
                return
            self._written.append(self._now())
            left_out, self._left_out = self._left_out, 0
        more = f", and {left_out} more since the last record" if left_out else ""
        shown = one_line(name)[:_MAX_NAME]
        logger.warning("a sign-in of %r from %s was refused: %s%s", shown, address, why, more)
        self._write(shown, SIGN_IN, f"from {address}{more}", error=why)

    def _write(self, user: str, action: str, target: str, *, id: str | None = None, error: str | None = None) -> None:
        record = self._trail.begin(user, action, target, None, "web", id=id)
        self._trail.end(record, "done" if error is None else "failed", Counter(), error)


def _end_id(session: str) -> str:
    return f"{session}-out"
