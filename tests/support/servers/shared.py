"""Sharing: one server of a kind for all the processes of one test run, started by the first that asks.

It is held by a process of its own that ends when the run does, however the run ends.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.server import Missing, started

CHECKOUT = Path(__file__).resolve().parents[3]


def shared(name: str, folder: Path, run_pid: int) -> str:
    """The address of the run's server of this kind; Missing when there is none."""
    record = folder / f"{name}.json"
    with _locked(folder / f"{name}.lock"):
        if not record.exists():
            record.write_text(_hold(name, run_pid))
        answer = json.loads(record.read_text())
    if "url" not in answer:
        raise Missing(answer["missing"])
    url: str = answer["url"]
    return url


def end_shared(folder: Path) -> None:
    """Stop what the run's processes started."""
    holders = [json.loads(record.read_text()).get("pid") for record in folder.glob("*.json")]
    for pid in filter(None, holders):
        os.kill(pid, signal.SIGTERM)


def hold(name: str, run_pid: int) -> None:
    """Start a server, print how to reach it, and keep it until the run is over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with started(name) as server:
            print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True)  # noqa: T201
            while _is_alive(run_pid):
                time.sleep(0.5)
    except Missing as missing:
        print(json.dumps({"missing": str(missing)}), flush=True)  # noqa: T201


def _hold(name: str, run_pid: int) -> str:
    command = [sys.executable, "-m", "tests.support.servers.shared", name, str(run_pid)]
    holder = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, start_new_session=True, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        answer = holder.stdout.readline()
    holder.returncode = 0  # it outlives this process by design: no warning that it still runs
    if not answer:
        raise OSError(f"the {name} server could not be started: its messages are above")
    return answer


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    hold(sys.argv[1], int(sys.argv[2]))
