"""The file watcher of `--reload`: sends SIGHUP to the supervisor when a Python file below the current folder changes.

The supervisor runs it as `python -m tenure.cli.process.reload PARENT`. It needs watchfiles, and ends with its parent.
"""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.cli.errors import CommandError


@contextmanager
def file_watcher() -> Iterator[None]:
    """While the context is entered, this process gets SIGHUP when files change."""
    if importlib.util.find_spec("watchfiles") is None:
        raise CommandError("--reload needs watchfiles, which is not installed: pip install tenure[reload]")
    watcher = subprocess.Popen([sys.executable, "-m", __name__, str(os.getpid())], process_group=0)
    try:
        yield
    finally:
        watcher.terminate()
        watcher.wait()


def main(parent: int) -> None:
    watchfiles = importlib.import_module("watchfiles")
    changes = watchfiles.watch(
        ".", watch_filter=watchfiles.PythonFilter(), yield_on_timeout=True, rust_timeout=1000, raise_interrupt=False
    )
    for changed in changes:
        if os.getppid() != parent:
            return
        if changed:
            os.kill(parent, signal.SIGHUP)


if __name__ == "__main__":
    main(int(sys.argv[1]))
