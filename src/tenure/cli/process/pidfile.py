"""The pid file: contains the id of the process while it runs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tenure.cli.errors import CommandError
from tenure.trusted_files import replace_file


class PidFile:
    """Refuses to start if the file names another running process; removes the file at the end if it is still ours."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()

    def __enter__(self) -> Self:
        try:
            with _locked(self._path.parent):
                pid = self._read()
                if pid and pid != os.getpid() and _is_running(pid):
                    raise CommandError(
                        f"{str(self._path)!r} names process {pid}, which is running; stop it, or remove the file if "
                        "that process is not a worker"
                    )
                self._write()
        except OSError as error:
            raise CommandError(f"the pid file {str(self._path)!r} cannot be written: {error.strerror}") from error
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._read() == os.getpid():
            self._path.unlink(missing_ok=True)

    def _read(self) -> int | None:
        try:
            pid = int(self._path.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid > 0 else None

    def _write(self) -> None:
        replace_file(self._path, f"{os.getpid()}\n".encode("ascii"), 0o644)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two processes that start at once check and write one after the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
