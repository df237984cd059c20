"""The worked example of a migration page as two folders: `old` with the modules before, `new` with those after."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.support.docs_pages import ROOT, blocks
from tests.support.waiting import STOP_SECONDS, WAIT_SECONDS

BIN = Path(sys.executable).parent


class Migration:
    """Jobs write lines into `receipts.txt` of the folder in which they run, so it shows which system ran which job."""

    def __init__(self, folder: Path, system: str, redis: str) -> None:
        self.old, self.new = folder / "old", folder / "new"
        self.redis = redis
        self.url = f"sqlite:///{self.new}/shop.db"
        found = blocks(ROOT / "docs" / "how-to" / "migrate" / f"from-{system}.md")
        files = [(block.file, block.text) for block in found if block.file is not None]
        for side, written in ((self.old, dict(reversed(files))), (self.new, dict(files))):
            side.mkdir()
            for name, text in written.items():
                (side / name).write_text(text, "utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_"))}
        self._environment = {
            **kept,
            "OLD_REDIS": redis,
            "NEW_URL": self.url,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": ".",
        }
        if "settings.py" in dict(files):
            self._environment["DJANGO_SETTINGS_MODULE"] = "settings"
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, side: Path, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """What the command prints; it must succeed."""
        done = subprocess.run(
            command, cwd=side, env={**self._environment, **(environment or {})}, capture_output=True, text=True,
            timeout=WAIT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, side: Path, *command: str) -> subprocess.Popen[bytes]:
        """A worker of the old system, whose output goes to `worker.log`."""
        with (side / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=side, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Stop it as an operator does, and wait until it has exited."""
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)

    def work(self) -> None:
        """Run what is ready in Tenure."""
        self.run(self.new, "tenure", "--app", "shop:app", "work", "--burst", "--quiet")

    def receipts(self, side: Path) -> Counter[str]:
        """How often the jobs of this side wrote each line."""
        file = side / "receipts.txt"
        return Counter(file.read_text().splitlines() if file.exists() else [])

    def close(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
