"""promtool, which checks pages and rules as Prometheus does: in TEST_PROMTOOL, installed, or fetched from Debian.

Standard library only: `make servers` runs before anything is installed.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.packages import UNPACKED, fetch
from tests.support.servers.server import Missing


@dataclass(frozen=True)
class Promtool:
    """The package; `variable` may hold the path of another promtool."""

    name: str = "promtool"
    variable: str = "TEST_PROMTOOL"
    packages: tuple[str, ...] = ("prometheus",)


PROMTOOL = Promtool()


def find_promtool(unpacked: Path = UNPACKED) -> Path | None:
    """The program: named by the variable, installed, or unpacked; None if there is none."""
    places = (os.environ.get(PROMTOOL.variable), shutil.which("promtool"), unpacked / "usr/bin/promtool")
    return next((Path(place) for place in places if place and Path(place).exists()), None)


def installed_promtool() -> Path:
    """The program, fetched if need be; raises Missing."""
    if (found := find_promtool()) is None:
        try:
            fetch(PROMTOOL)
        except OSError as error:
            raise Missing(f"no promtool: {error}") from error
        found = find_promtool()
    if found is None:
        raise Missing(f"Debian's {PROMTOOL.packages[0]} holds no promtool")
    return found


def run(program: Path, *arguments: str, page: str = "") -> tuple[int, str]:
    """The exit code, and all it printed."""
    done = subprocess.run(
        [str(program), *arguments],
        input=page,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
