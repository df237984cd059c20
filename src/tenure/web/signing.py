"""Signer: texts that only this dashboard can have made, for cookies; HMAC-SHA256 of the standard library."""

import base64
import hmac
import secrets
import threading
from collections.abc import Callable

from tenure.app.open_backends import derived_secret
from tenure.app.tenure import Tenure

_PURPOSE = "tenure dashboard cookies"


class Signer:
    """Signs with a secret that is read at the first use, so that nothing is opened before."""

    def __init__(self, secret: Callable[[], bytes]) -> None:
        self._read = secret
        self._secret: bytes | None = None
        self._lock = threading.Lock()

    def sign(self, purpose: str, data: bytes, bound_to: bytes = b"") -> str:
        """The data with a signature, as text for a cookie. It holds for this purpose and this binding only."""
        return f"{_encode(data)}.{_encode(self._mac(purpose, data, bound_to))}"

    def opened(self, purpose: str, text: str, bound_to: bytes = b"") -> bytes | None:
        """The data of a text that `sign` made; None if anybody else made or changed it."""
        body, _, signature = text.partition(".")
        data, given = _decode(body), _decode(signature)
        if data is None or given is None:
            return None
        return data if hmac.compare_digest(given, self._mac(purpose, data, bound_to)) else None

    def _mac(self, purpose: str, data: bytes, bound_to: bytes) -> bytes:
        with self._lock:
            if self._secret is None:
                self._secret = self._read()
        message = b"".join(len(part).to_bytes(4, "big") + part for part in (purpose.encode(), bound_to, data))
        return hmac.digest(self._secret, message, "sha256")


def peek(text: str) -> bytes | None:
    """The data of a signed text, which is not checked: for finding what the text is bound to."""
    return _decode(text.partition(".")[0])


def app_signer(app: Tenure) -> Signer:
    """Signs with a secret of the app's own key, so that all processes of an app know each other's cookies.

    Without a secret key of its own, an app gets a random secret: its sessions end with the process.
    """
    return Signer(lambda: derived_secret(app.open_backend(), _PURPOSE) or secrets.token_bytes(32))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
