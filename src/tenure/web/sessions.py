"""Sessions: who signed in, in a signed cookie; a session that was signed out is not accepted again by any process.

The cookie of a user is bound to the hash of the password, so a new password ends all sessions of the user.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Struct

from tenure.definition.job import new_id
from tenure.errors import BackendError
from tenure.web.signing import Signer, peek

_MAX_TOKEN = 2048  # characters
_PURPOSE = "session"
_RECHECK_SECONDS = 5.0  # how soon a process learns that another one ended a session
_MAX_KNOWN = 10_000


class Session(Struct, frozen=True):
    """`id` is that of the audit record of the sign-in, `until` is in UTC seconds."""

    user: str
    id: str
    until: int


class Sessions:
    """`secret_of` gives what the sessions of a user are bound to, None if there is no such user.

    `has_ended` asks whether another process ended a session. Its answer is kept for some seconds.
    """

    def __init__(
        self,
        signer: Signer,
        secret_of: Callable[[str], bytes | None],
        has_ended: Callable[[str], bool],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._signer = signer
        self._secret_of = secret_of
        self._has_ended = has_ended
        self._now = now
        self._checked: OrderedDict[str, float] = OrderedDict()  # session → when it was last found alive
        self._ended: OrderedDict[str, int] = OrderedDict()  # session → its end, after which it needs no memory
        self._lock = threading.Lock()

    def begin(self, user: str, seconds: float) -> tuple[Session, str]:
        """A new session and its cookie."""
        session = Session(user, new_id(), int(self._now() + seconds))
        bound = self._secret_of(user)
        assert bound is not None, "only a user can begin a session"  # noqa: S101 - the caller has checked it
        return session, self._signer.sign(_PURPOSE, msgspec.json.encode(session), bound)

    def find(self, token: str) -> Session | None:
        """The session of a cookie; None if it is forged, too old, or was signed out."""
        if len(token) > _MAX_TOKEN:
            return None
        claimed = _decode(peek(token))
        bound = None if claimed is None else self._secret_of(claimed.user)
        if bound is None:
            return None
        session = _decode(self._signer.opened(_PURPOSE, token, bound))
        if session is None or session.until <= self._now() or not self._is_alive(session):
            return None
        return session

    def is_open(self, session: Session) -> bool:
        """Whether a session that was found has neither reached its end nor been signed out in this process."""
        return session.until > self._now() and session.id not in self._ended

    def end(self, session: Session) -> None:
        """This process forgets the session at once; the caller tells the others."""
        with self._lock:
            self._ended[session.id] = session.until
            while self._ended and (next(iter(self._ended.values())) <= self._now() or len(self._ended) > _MAX_KNOWN):
                self._ended.popitem(last=False)

    def _is_alive(self, session: Session) -> bool:
        with self._lock:
            if session.id in self._ended:
                return False
            if self._checked.get(session.id, 0.0) + _RECHECK_SECONDS > self._now():
                return True
        try:
            has_ended = self._has_ended(session.id)
        except BackendError:  # a user who was known before the outage sees the last figures
            if session.id not in self._checked:
                raise
            has_ended = False
        if has_ended:
            self.end(session)
            return False
        with self._lock:
            self._checked[session.id] = self._now()
            self._checked.move_to_end(session.id)
            while len(self._checked) > _MAX_KNOWN:
                self._checked.popitem(last=False)
        return True


def _decode(data: bytes | None) -> Session | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Session)
    except msgspec.MsgspecError:
        return None
