"""Django's own tests of its tasks: the newer Python, the Django and the source distribution that they need.

All is kept in `.servers`, in a folder for these versions, so it is fetched once.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.servers.interpreter import newer_python
from tests.support.servers.packages import UNPACKED
from tests.support.servers.server import Missing

DJANGO = "6.1.3"
_ROOT = Path(__file__).parents[2]
_SECONDS = 300  # for one step; only a broken network takes so long


def run_djangos_suite(program: Path) -> dict[str, Any]:
    """Run the program in the newer Python, with Django and its tests on the path; return what it prints as JSON."""
    python = newer_python()
    place = _prepared(python)
    paths = (place / "lib", _ROOT / "src", place / "tests")
    done = _run([str(python), str(program)], {"PYTHONPATH": os.pathsep.join(map(str, paths))}, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise AssertionError(f"the suite of Django did not run: {done.stderr[-2000:]}") from error
    return found


def newer_django() -> tuple[Path, str]:
    """The newer Python, and a PYTHONPATH with Django and Tenure; raises Missing."""
    python = newer_python()
    return python, os.pathsep.join(map(str, (_prepared(python) / "lib", _ROOT / "src")))


def _prepared(python: Path) -> Path:
    """The folder with Django, what Tenure needs, and Django's tests; raises Missing."""
    version = _run([str(python), "-c", "import sys; print('{}{}'.format(*sys.version_info))"]).stdout.strip()
    place = UNPACKED / f"django-{DJANGO}-cp{version}"
    with _locked(UNPACKED / "django.lock"):
        if not place.exists():
            partial = place.with_name(f"{place.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _install(python, partial / "lib")
                _download_tests(partial)
            except subprocess.CalledProcessError as error:
                raise Missing(f"Django {DJANGO} could not be fetched: {error.stderr.strip()[-500:]}") from error
            except subprocess.TimeoutExpired as error:
                raise Missing(f"Django {DJANGO} could not be fetched: {error}") from error
            partial.rename(place)
    return place


def _install(python: Path, into: Path) -> None:
    """Install Django and Tenure's own requirements; the pip of this environment works for the other Python."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    wanted = [f"django=={DJANGO}", *project["dependencies"]]
    _run(_pip("--python", str(python), "install", "--target", str(into), "--only-binary=:all:", *wanted))


def _download_tests(into: Path) -> None:
    """Django's wheel has no tests; its source distribution has."""
    one = ("--no-deps", "--no-binary", "django", "--ignore-requires-python", f"django=={DJANGO}")
    _run(_pip("download", "--dest", str(into), *one))
    prefix = f"django-{DJANGO}/"
    with tarfile.open(next(into.glob("*.tar.gz"))) as archive:
        for member in archive.getmembers():
            if member.name.startswith(f"{prefix}tests/tasks/"):
                member.name = member.name.removeprefix(prefix)
                archive.extract(member, into, filter="data")


def _pip(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]


def _run(
    command: list[str], more: Mapping[str, str] | None = None, *, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **(more or {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=check, env=environment, cwd=UNPACKED
    )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Only one process at a time is here: tests run in several."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
