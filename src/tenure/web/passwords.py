"""Passwords and tokens: how they are hashed, and checked in the same time whether they exist or not."""

import base64
import hashlib
import hmac
import secrets
import threading
from functools import cache

from tenure.errors import SettingsError

# 16 MB and a quarter of a second: one of the sets of parameters that OWASP advises for scrypt.
COST, _BLOCK_SIZE, _PARALLEL = 2**14, 8, 5
_MAX_MEMORY = 134_217_728
_SALT_BYTES = 16
_HASH_BYTES = 32
_TOKEN_PREFIX = "tnr_"  # noqa: S105 - so that scanners of repositories can find a token
MAX_PASSWORD = 1024  # characters

# A check takes memory and a core: two at once are enough for people, and strangers cannot take more.
_checks = threading.BoundedSemaphore(2)


def hash_password(password: str, cost: int = COST) -> str:
    """The text for the settings: the parameters, the salt and the hash."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _digest(password[:MAX_PASSWORD], salt, cost, _BLOCK_SIZE, _PARALLEL)
    return f"scrypt${cost}${_BLOCK_SIZE}${_PARALLEL}${_encode(salt)}${_encode(digest)}"


def check_hash(user: str, written: str) -> None:
    """Raise SettingsError unless the text is one of `hash_password`."""
    _parse(user, written)


def is_right(password: str, written: str | None) -> bool:
    """Whether it is the password of this hash; without a hash the answer is no, after the same time."""
    cost, block_size, parallel, salt, expected = _parse("", written or _nobodys_hash())
    with _checks:
        found = _digest(password[:MAX_PASSWORD], salt, cost, block_size, parallel)
    return hmac.compare_digest(found, expected) and written is not None


def new_token() -> str:
    return f"{_TOKEN_PREFIX}{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """A token is random and long, so a plain hash protects it."""
    return hashlib.sha256(token.encode()).hexdigest()


@cache
def _nobodys_hash() -> str:
    return hash_password(secrets.token_hex(16))


def _digest(password: str, salt: bytes, cost: int, block_size: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block_size, p=parallel, maxmem=_MAX_MEMORY, dklen=_HASH_BYTES
    )


def _parse(user: str, written: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        _, cost, block_size, parallel, salt, digest = written.split("$")
        found = int(cost), int(block_size), int(parallel), _decode(salt), _decode(digest)
        if 128 * found[0] * found[1] >= _MAX_MEMORY or found[2] > 16 or not found[3] or len(found[4]) != _HASH_BYTES:
            raise ValueError("out of range")
    except ValueError:
        raise SettingsError(
            f"the password hash of the dashboard user {user!r} is damaged; make a new one with "
            "`tenure dashboard --hash-password`"
        ) from None
    return found


def _encode(data: bytes) -> str:
    return base64.b64encode(data, altchars=b"-_").decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
