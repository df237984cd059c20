"""Environments: one virtual environment, or one folder of Node packages, for each entry of pins.toml."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
Entry = dict[str, Any]
Install = Callable[[Path, Entry], None]
PINS: dict[str, Entry] = tomllib.loads((HERE / "pins.toml").read_text())


class Unavailable(Exception):
    """This peer cannot be measured here; the message says why."""


def cache() -> Path:
    """Where environments are kept, so that the next run starts at once."""
    return Path(os.environ.get("BENCH_CACHE") or ROOT / ".bench")


def interpreter(name: str) -> Path:
    """The Python or Node that runs a peer, with its packages installed; Tenure itself has no entry and runs in ours."""
    if name not in PINS:
        return Path(sys.executable)
    folder = cache() / name
    if name == "node":
        program = Path(_program("node"))
        _install_once(folder, name, _install_node)
        return program
    _install_once(folder, name, _install_python)
    return folder / "bin/python"


def version(name: str, package: str | None = None) -> str:
    """The pin of what is measured: the first of an environment, or the one that starts so."""
    packages: list[str] = PINS[name]["packages"]
    return next(pin for pin in packages if package is None or pin.startswith(package))


def _install_once(folder: Path, name: str, install: Install) -> None:
    """Install unless this very list is installed already."""
    stamp, wanted = folder / "installed", repr(PINS[name])
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"Installing {name} into {folder}", file=sys.stderr, flush=True)
    install(folder, PINS[name])
    stamp.write_text(wanted)


def _install_python(folder: Path, entry: Entry) -> None:
    python = _python(str(entry["python"])) if "python" in entry else sys.executable
    _run([python, "-m", "venv", str(folder)])
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, *entry["packages"]])


def _install_node(folder: Path, entry: Entry) -> None:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}')
    _run([_program("npm"), "install", "--silent", "--no-audit", "--no-fund", *entry["packages"]], cwd=folder)


def _python(version: str) -> str:
    """An interpreter of another version: on the path, or one that pyenv keeps."""
    candidates = [*sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)]
    if found := shutil.which(f"python{version}"):
        candidates.append(Path(found))
    for candidate in candidates:
        if subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return str(candidate)
    raise Unavailable(f"it needs Python {version}, which is not installed")


def _program(name: str) -> str:
    if found := shutil.which(name):
        return found
    raise Unavailable(f"it needs {name}, which is not installed")


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()] or ["no reason given"]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise Unavailable(f"it could not be installed: {errors[0]}")
