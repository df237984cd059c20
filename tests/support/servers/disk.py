"""Disk: a small one of a server's own, which a test can fill. Needs root that may mount."""

import os
import subprocess
from pathlib import Path

_CHUNK = b"\0" * 65_536


class NoDisk(Exception):
    """This machine, or this user, cannot have one."""


class Disk:
    """Memory mounted on an empty folder; NoDisk where that is not allowed."""

    def __init__(self, folder: Path, size: str) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"
        self._run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder))

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (len(_CHUNK), 4096, 1):
                try:
                    while file.write(_CHUNK[:size]):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Give back what was filled."""
        self._ballast.unlink()

    def remove(self) -> None:
        self._run("umount", "--lazy", str(self._folder))

    def _run(self, *command: str) -> None:
        if os.geteuid() != 0:
            raise NoDisk("a disk that fills up needs root")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoDisk(f"a disk that fills up could not be made: {done.stderr.strip()}")
