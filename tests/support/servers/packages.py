"""Fetching Debian's packages of servers and Chromium into a folder of ours, as any user; the system does not change."""

import shutil
import subprocess
from pathlib import Path
from typing import Protocol

UNPACKED = Path(__file__).resolve().parents[3] / ".servers"


class Packaged(Protocol):
    """What comes from Debian's packages, unless its `variable` names another one."""

    @property
    def packages(self) -> tuple[str, ...]: ...

    @property
    def variable(self) -> str: ...


def fetch(kind: Packaged, into: Path = UNPACKED) -> None:
    """Download the packages and the libraries they need that this machine lacks, and unpack them."""
    if not shutil.which("apt-get"):
        raise OSError(f"there is no apt-get: install {kind.packages[0]} or set {kind.variable}")
    apt = _apt(into)
    if not list((into / "lists").glob("*Packages*")):
        # Ends in failure when any source on the list does, though the one that matters may be fine.
        _run([*apt, "update"], check=False)
    shutil.rmtree(into / "cache", ignore_errors=True)
    (into / "cache/archives/partial").mkdir(parents=True)
    _run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *kind.packages])
    for package in sorted((into / "cache/archives").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(into)])
    shutil.rmtree(into / "cache")


def _apt(into: Path) -> list[str]:
    """apt-get with lists and cache of our own, so that it needs no rights and takes no lock."""
    (into / "lists/partial").mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::lists": into / "lists",
        "Dir::Cache": into / "cache",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return ["apt-get", "-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]


def _run(command: list[str], check: bool = True) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(command[:1] + command[-3:])} failed: {done.stdout.strip()[-500:]}")
