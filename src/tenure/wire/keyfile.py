"""A key kept in a file beside an embedded database, made on first use and readable by its owner alone."""

import os
import secrets
from pathlib import Path

from tenure.errors import SettingsError
from tenure.wire.signing import Key, new_key, parse_key


def load_or_create(path: Path) -> Key:
    """The key in this file; when two processes create it at once, both get the same one."""
    try:
        if not path.exists():
            _create(path)
        return parse_key(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the key file {str(path)!r} cannot be used: {error}") from error


def _create(path: Path) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{new_key().dump()}\n".encode("ascii"))
        os.fsync(descriptor)
        os.link(draft, path)  # appears whole, and only if nobody was faster
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        draft.unlink()
