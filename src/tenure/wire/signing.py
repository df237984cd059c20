"""Keys and seals: HMAC-SHA256 over a domain prefix and every byte before the seal, and the key file.

Only the holder of a key can make a message; every worker that verifies can also sign.
The seal has a fixed length at the end of the message, so verification needs no parsing and no canonical form.
"""

import base64
import errno
import hashlib
import hmac
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from tenure.errors import (
    BadSignature,
    Malformed,
    OutOfScope,
    SettingsError,
    UnknownKey,
    UnsupportedVersion,
    UntrustedKeyFile,
)
from tenure.permissions import Scope
from tenure.trusted_files import file_fault, path_fault

_DOMAIN = b"tenure.envelope.v1\x00"
_HEAD = b'{"v":1,"kid":"'
_FACTS = b"facts\x00"  # no envelope begins with it
_MARK = b',"_sig":"'
_END = b'"}'
SEAL_SIZE = len(_MARK) + 64 + len(_END)
_KID_AT = len(_HEAD)
_KID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_BLOCK = 64
_GROUP_OR_OTHERS = 0o077
_MOST_HASHED_AT_ONCE = 31 * _BLOCK  # hashlib releases the GIL for 2048 bytes and more


class Key:
    """A secret of at least 32 bytes with an id; written as `kid:base64url`."""

    def __init__(self, kid: str, secret: bytes) -> None:
        _check_kid(kid)
        if len(secret) < 32 or len(set(secret)) < 8:
            raise SettingsError(f"key {kid!r} is too weak: it needs at least 32 random bytes")
        self.kid = kid
        self._secret = secret
        derived = hmac.digest(secret, b"tenure envelope signing key", "sha256").ljust(_BLOCK, b"\0")
        # Pre-keyed states, copied for each message: hmac.new and hmac.digest release the GIL on every call, which
        # costs milliseconds beside a busy thread; a copy costs 1.4 µs (docs/adr/0004).
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in derived) + _DOMAIN)
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in derived))

    def __repr__(self) -> str:
        return f"Key({self.kid!r})"

    def mac(self, data: bytes) -> bytes:
        """The seal of these bytes, as lowercase hex."""
        inner = self._inner.copy()
        if len(data) <= _MOST_HASHED_AT_ONCE:
            inner.update(data)
        else:
            for at in range(0, len(data), _MOST_HASHED_AT_ONCE):
                inner.update(data[at : at + _MOST_HASHED_AT_ONCE])
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest().encode()

    def derive(self, purpose: str) -> bytes:
        """Another secret for another purpose; it tells nothing about this key."""
        return hmac.digest(self._secret, f"tenure derived secret: {purpose}".encode(), "sha256")

    def dump(self) -> str:
        return f"{self.kid}:{base64.urlsafe_b64encode(self._secret).decode().rstrip('=')}"


def new_key(kid: str | None = None) -> Key:
    return Key(kid or f"k{secrets.token_hex(4)}", secrets.token_bytes(32))


def parse_key(text: str) -> Key:
    """A key from its written form; an error message never contains the secret."""
    kid, separator, encoded = text.strip().partition(":")
    if not separator:
        raise SettingsError("a key is written as kid:base64url; this one has no ':'")
    _check_kid(kid)
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise SettingsError(f"the secret of key {kid!r} is not base64url") from None
    return Key(kid, secret)


def _check_kid(kid: str) -> None:
    """Refuse a bad id without showing it: if the user swapped id and secret, it is the secret."""
    if not _KID.fullmatch(kid):
        raise SettingsError(
            f"a text of {len(kid)} characters was given as the id of a key; use 1 to 40 letters, digits, '_' or '-'"
        )


class Ring:
    """An ordered ring of keys: the first signs, all verify; `scopes` limits what a key may sign for, by key id."""

    def __init__(self, keys: Iterable[Key], *, verify: bool = True, scopes: Mapping[str, Scope] | None = None) -> None:
        self._keys: dict[bytes, Key] = {}
        for key in keys:
            if self._keys.setdefault(key.kid.encode(), key) is not key:
                raise SettingsError(f"two keys of the ring are called {key.kid!r}; give each its own id")
        if not self._keys:
            raise SettingsError("the key ring is empty; make a key and put it into the setting 'keys'")
        self._signer = next(iter(self._keys.values()))
        self._signers_head = _HEAD + self._signer.kid.encode() + b'"'
        self.verifies = verify
        self.scopes = dict(scopes or {}) if verify else {}
        for kid in self.scopes:
            if kid.encode() not in self._keys:
                raise SettingsError(f"the setting 'scopes' names key {kid!r}, which is not in the ring")

    @property
    def kids(self) -> list[str]:
        """The ids of all keys, in order."""
        return [key.kid for key in self._keys.values()]

    @property
    def kid(self) -> str:
        """The id of the key that signs."""
        return self._signer.kid

    def derive(self, purpose: str) -> bytes:
        """A secret for another purpose, from the key that signs."""
        return self._signer.derive(purpose)

    def seal(self, unsealed: bytes) -> bytes:
        """The JSON object with its seal as the last member."""
        head = unsealed[:-1]
        return b"".join((head, _MARK, self._signer.mac(head), _END))

    def authorise(self, kid: str, queue: str, handler: str, guards: Iterable[str]) -> None:
        """Raise unless the key with this id may sign for this queue, this handler and guards of these names."""
        scope = self.scopes.get(kid)
        if scope is not None and (fault := scope.fault(queue, handler, guards)):
            raise OutOfScope(f"key {kid!r} may not sign for {fault}; the setting 'scopes' says what it may")

    def check(self, sealed: bytes) -> None:
        """Raise unless a key of this ring sealed the bytes; takes one pass over them.

        A ring that does not verify needs no seal.
        """
        is_signers = sealed.startswith(self._signers_head)  # most are, and then the id of the key need not be searched
        if not is_signers and not sealed.startswith(_HEAD):
            _refuse_head(sealed)
        if not self.verifies:
            return
        if not (sealed.startswith(_MARK, -SEAL_SIZE) and sealed.endswith(_END)):
            raise BadSignature("the message does not end in a signature")
        key = self._signer if is_signers else self._key_of(sealed)
        if not hmac.compare_digest(key.mac(sealed[:-SEAL_SIZE]), sealed[-66:-2]):
            raise BadSignature(f"the signature made with key {key.kid!r} does not match the message")

    def mark(self, facts: bytes) -> bytes:
        """`kid:mac` of facts that a backend keeps beside a message; it is never valid as the seal of a message."""
        return b"%s:%s" % (self.kid.encode(), self._signer.mac(_FACTS + facts))

    def check_mark(self, facts: bytes, mark: bytes) -> None:
        """Raise unless a key of this ring made this mark of the facts."""
        if not self.verifies:
            return
        kid, _, mac = mark.partition(b":")
        key = self._keys.get(kid)
        if key is None:
            raise UnknownKey(
                f"facts were marked with key {kid[:40].decode('utf-8', 'replace')!r}, which is not in the key ring"
            )
        if not hmac.compare_digest(key.mac(_FACTS + facts), mac):
            raise BadSignature(f"the mark made with key {key.kid!r} does not match the facts")

    def _key_of(self, sealed: bytes) -> Key:
        key = self._keys.get(sealed[_KID_AT : sealed.find(b'"', _KID_AT)])
        if key is None:
            raise UnknownKey(f"the message was sealed with key {kid_of(sealed)!r}, which is not in the key ring")
        return key


def kid_of(head: bytes) -> str:
    """The id of the key that sealed a message, as the beginning of the message states it."""
    if not head.startswith(_HEAD):
        return ""
    return head[len(_HEAD) :].partition(b'"')[0][:40].decode("utf-8", "replace")


def _refuse_head(sealed: bytes) -> None:
    version = re.match(rb'\{"v":(\d{1,9}),', sealed)
    if version is not None and version[1] != b"1":
        raise UnsupportedVersion(
            f"envelope version {int(version[1])} is not one this release reads; upgrade the worker"
        )
    raise Malformed('the message does not begin with {"v":1,"kid":…')


def load_keys(path: Path) -> list[Key]:
    """The keys in this file, one per line or separated by commas; none if it does not exist."""
    if not path.exists():
        return []
    check_key_file(path)
    try:
        text = _read_key_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the key file {str(path)!r} cannot be used: {error}") from error
    return [parse_key(part) for part in re.split(r"[,\n]", text) if part.strip()]


def save_key(path: Path, key: Key) -> None:
    """Write the key into a new file, with access for its owner only; an existing file is an error."""
    check_key_file(path)
    try:
        if not _create_key_file(path, key):
            raise SettingsError(f"the key file {str(path)!r} exists already; nothing was changed")
    except OSError as error:
        raise SettingsError(f"the key file {str(path)!r} cannot be written: {error}") from error


def load_or_create_key(path: Path) -> Key:
    """The key in this file, which is created if it is missing, with access for its owner only.

    If two processes create it at the same time, both get the same key.
    """
    check_key_file(path)
    try:
        if not path.exists():
            _create_key_file(path, new_key())
        return parse_key(_read_key_file(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the key file {str(path)!r} cannot be used: {error}") from error


def check_key_file(path: Path) -> None:
    """Refuse a key file that other users can read or replace, and a folder in which they could replace a new one.

    A missing folder is refused elsewhere.
    """
    try:
        if fault := path_fault(path.parent):
            raise _untrusted(path, fault)
        _read_key_file(path)
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the key file {str(path)!r} cannot be used: {error}") from error


def _read_key_file(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _untrusted(path, "it is a symbolic link; put the key itself there") from error
    with os.fdopen(descriptor, encoding="ascii") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _untrusted(path, "it is not a regular file; remove it")
        if fault := file_fault(path, status):
            raise _untrusted(path, fault)
        if status.st_mode & _GROUP_OR_OTHERS:
            raise _untrusted(path, f"other users can read it; run chmod 600 {shlex.quote(str(path))}")
        return file.read()


def _untrusted(path: Path, fault: str) -> UntrustedKeyFile:
    return UntrustedKeyFile(
        f"the key file {str(path)!r} cannot be trusted: {fault}, or set TENURE_KEYS and use no key file"
    )


def _create_key_file(path: Path, key: Key) -> bool:
    """Whether the file was created; another process may have been faster."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{key.dump()}\n".encode("ascii"))
        os.fsync(descriptor)
        os.link(draft, path)  # the file appears complete, and only if no other process was faster
    except FileExistsError:
        return False
    finally:
        os.close(descriptor)
        draft.unlink()
    return True
