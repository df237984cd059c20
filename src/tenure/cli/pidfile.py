"""PidFile: a file that names the process that works, for as long as it does."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tenure.cli.failures import CommandError


class PidFile:
    """Refuses when the file names another process that lives; removed at the end, if it is still ours."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()

    def __enter__(self) -> Self:
        try:
            with _alone(self._path.parent):
                holder = self._holder()
                if holder and holder != os.getpid() and _lives(holder):
                    raise CommandError(
                        f"{str(self._path)!r} names process {holder}, which runs; stop it, or remove the file if that "
                        "is something else"
                    )
                fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
                fresh.write_text(f"{os.getpid()}\n", "ascii")
                fresh.replace(self._path)
        except OSError as error:
            raise CommandError(f"the pid file {str(self._path)!r} cannot be written: {error.strerror}") from error
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._holder() == os.getpid():
            self._path.unlink(missing_ok=True)

    def _holder(self) -> int | None:
        try:
            pid = int(self._path.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid > 0 else None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that start at once look and write one after the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
