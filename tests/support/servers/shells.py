"""zsh and fish, which the tests of completion drive: installed ones, or Debian's packages in `.servers`."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.packages import UNPACKED, fetch
from tests.support.servers.server import Missing


@dataclass(frozen=True)
class Shell:
    """`variable` may hold the path of another one."""

    name: str
    variable: str
    packages: tuple[str, ...]
    places: tuple[str, ...]  # below the folder into which the packages were unpacked


SHELLS = (
    Shell(name="zsh", variable="TEST_ZSH", packages=("zsh",), places=("bin/zsh", "usr/bin/zsh")),
    Shell(name="fish", variable="TEST_FISH", packages=("fish",), places=("usr/bin/fish",)),
)


def find_shell(shell: Shell) -> Path | None:
    """Named by the variable, installed, or unpacked; None if there is none."""
    if given := os.environ.get(shell.variable):
        return Path(given)
    if installed := shutil.which(shell.name):
        return Path(installed)
    return next((UNPACKED / place for place in shell.places if (UNPACKED / place).is_file()), None)


def installed_shell(name: str) -> Path:
    """The program, fetched if need be; raises Missing."""
    shell = next(each for each in SHELLS if each.name == name)
    if find_shell(shell) is None:
        try:
            fetch(shell)
        except OSError as error:
            raise Missing(f"no {name}: {error}") from error
    found = find_shell(shell)
    if found is None:
        raise Missing(f"Debian's package holds no {name}")
    return found


def environment(program: Path) -> dict[str, str]:
    """The variables that an unpacked shell needs to find its libraries."""
    if UNPACKED not in program.parents:
        return {}
    folders = [*UNPACKED.glob("lib/*-linux-gnu*"), *UNPACKED.glob("usr/lib/*-linux-gnu*")]
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
