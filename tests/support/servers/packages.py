"""Fetching Debian's packages of servers and Chromium into a folder of ours, as any user; the system does not change."""

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

UNPACKED = Path(__file__).resolve().parents[3] / ".servers"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


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
    _unpack(kind.packages, into, _apt(into))


def fetch_release(packages: Sequence[str], release: str, into: Path) -> None:
    """Unpack packages of another release of Debian, with every library that they need, the C library included."""
    if not shutil.which("apt-get"):
        raise OSError("there is no apt-get")
    into.mkdir(parents=True, exist_ok=True)
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    (into / "sources.list").write_text(f"deb {signed}{_mirror()} {release} main\n")
    (into / "status").touch()  # no package counts as installed
    own = {
        "Dir::Etc::sourcelist": into / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::status": into / "status",
    }
    _unpack(packages, into, _apt(into, own))


def _mirror() -> str:
    """Where this machine has Debian's packages from; raises OSError."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME")
    target = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"]
    found = subprocess.run(target, capture_output=True, text=True, check=False).stdout.split("\n")
    sites = [site for site, _, release in (line.partition(" ") for line in found) if release == codename]
    mirror = next((site for site in sites if site.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        raise OSError("apt-get names no place that has the packages of Debian")
    return mirror


def _unpack(packages: Sequence[str], into: Path, apt: list[str]) -> None:
    if not list((into / "lists").glob("*Packages*")):
        # Ends in failure when any source on the list does, though the one that matters may be fine.
        _run([*apt, "update"], check=False)
    shutil.rmtree(into / "cache", ignore_errors=True)
    (into / "cache/archives/partial").mkdir(parents=True)
    _run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *packages])
    for package in sorted((into / "cache/archives").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(into)])
    shutil.rmtree(into / "cache")


def _apt(into: Path, own: Mapping[str, str | Path] = MappingProxyType({})) -> list[str]:
    """apt-get with lists and cache of our own, so that it needs no rights and takes no lock."""
    (into / "lists/partial").mkdir(parents=True, exist_ok=True)
    settings = {
        **own,
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
