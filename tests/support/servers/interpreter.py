"""A Python that is newer than the one of the tests, for what needs it: Django 6 does not run on Python 3.11.

It is what the variable TEST_PYTHON_312_OR_NEWER names, one on the path, one of pyenv, or that of a newer release of
Debian, unpacked into `.servers` with its own C library. Standard library only: `make servers` runs before anything is
installed.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers.packages import UNPACKED, fetch_release
from tests.support.servers.server import Missing

VARIABLE = "TEST_PYTHON_312_OR_NEWER"
_NEWEST, _OLDEST = 14, 12  # minor versions; a newer one may lack wheels
_RELEASE, _PACKAGE = "trixie", "python3.13"
# The program needs the loader and the libraries of its release; it must not start itself again without them.
_START = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
libraries=$(echo "$here"/usr/lib/*-linux-gnu*)
export PYTHONHOME="$here/usr"
exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" "$here/usr/bin/{package}" "$@"
"""


def find_newer_python(unpacked: Path = UNPACKED) -> Path | None:
    """The interpreter, if there is one without fetching it."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    return next((path for path in _candidates(unpacked) if _is_newer(path)), None)


def newer_python() -> Path:
    """The interpreter, fetched if need be; raises Missing."""
    if found := find_newer_python():
        return found
    try:
        fetch_newer_python()
    except OSError as error:
        raise Missing(f"no Python 3.{_OLDEST} or newer: {error}; name one in {VARIABLE}") from error
    if found := find_newer_python():
        return found
    raise Missing(f"the {_PACKAGE} of Debian {_RELEASE} does not start here; name a Python in {VARIABLE}")


def fetch_newer_python(unpacked: Path = UNPACKED) -> None:
    """Unpack Debian's package beside the servers; raises OSError."""
    place = _place(unpacked)
    fetch_release([_PACKAGE], _RELEASE, place.parent)
    place.write_text(_START.format(package=_PACKAGE))
    place.chmod(0o755)


def _candidates(unpacked: Path) -> Iterator[Path]:
    yield Path(sys.executable)
    for minor in range(_NEWEST, _OLDEST - 1, -1):
        if on_path := shutil.which(f"python3.{minor}"):
            yield Path(on_path)
        yield from sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), reverse=True)
    yield _place(unpacked)


def _place(unpacked: Path) -> Path:
    return unpacked / f"{_RELEASE}-python" / "python"


def _is_newer(python: Path) -> bool:
    """Whether it starts, and is new enough; pyenv puts programs on the path that do not start."""
    asked = [str(python), "-c", "import sqlite3, ssl, sys; print(sys.version_info[1])"]
    try:
        minor = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return False
    return minor.isdecimal() and _OLDEST <= int(minor) <= _NEWEST
