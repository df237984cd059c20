"""Stand: one peer on an empty server, its jobs sent by its agent and its workers as real processes."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.peers import processes
from benchmarks.peers.catalogue import Peer
from benchmarks.peers.environments import HERE, ROOT, cache, interpreter
from benchmarks.peers.probe import Probe
from benchmarks.peers.servers import Servers

BOOT = 60.0


class Failed(Exception):
    """A peer did not do what a row asks; the message says what."""


@dataclass(frozen=True)
class Sent:
    """What the agent did: so many jobs, in so many seconds, at so much CPU of the sending process."""

    jobs: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Stand:
    """Made anew for every measurement, with a folder of its own."""

    def __init__(self, peer: Peer, servers: Servers, slots: int, folder: Path, log: IO[bytes]) -> None:
        self.peer = peer
        self._servers = servers
        self._log = log
        self.probe = Probe(folder / "probe", slots)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BENCH_URL": servers.fresh(peer.server, folder),
            "BENCH_PEER": peer.name,
            "BENCH_PROBE": str(folder / "probe"),
            "BENCH_NODE": str(cache() / "node"),
        }
        self._is_set_up = False

    def job(self, work: str, style: str | None = None) -> str:
        """The name of a body: this work, in the peer's faster style unless told which."""
        return f"{work}_{style or self.peer.styles[0]}"

    def send(self, job: str, jobs: int, seconds: float, way: str = "one", **more: Any) -> Sent | None:
        """As many jobs as fit into so many seconds; None where the peer has no such call."""
        order = {"do": "send", "job": job, "jobs": jobs, "seconds": seconds, "way": way, "pad": "", "first": 0, **more}
        done = self._agent(**order)
        return Sent(done["sent"], done["seconds"], done["cpu"]) if done else None

    def fill(self, job: str, jobs: int, seconds: float, **more: Any) -> Sent:
        """A backlog, the fastest way the peer has."""
        sent = self.send(job, jobs, seconds, "many", **more) or self.send(job, jobs, seconds, **more)
        if not sent or not sent.jobs:
            raise Failed("no job could be sent")
        return sent

    def kept(self, job: str) -> int | None:
        """How many results of such jobs the peer keeps now; None where it keeps none."""
        found: int | None = self._agent(do="count", job=job)
        return found

    @contextmanager
    def worker(self, job: str, count: int = 1) -> Iterator["Workers"]:
        """So many worker processes, ended with the block."""
        commands = self._agent(do="worker", job=job, processes=count)
        workers = Workers(commands, {**self._environment, "BENCH_JOB": job}, self._log)
        try:
            workers.start()
            yield workers
        finally:
            workers.kill()  # at once: what they would put in order, the next measurement empties

    def server_cpu(self) -> float:
        return processes.cpu_seconds(self._servers.pids(self.peer.server))

    def _agent(self, **order: Any) -> Any:
        order["setup"], self._is_set_up = not self._is_set_up, True
        prefix = ["-m", "benchmarks.peers.agent"]
        if self.peer.is_node:
            prefix = [str(HERE / "node/agent.mjs")]
        done = subprocess.run(
            [str(interpreter(self.peer.environment)), *prefix, self.peer.adapter, json.dumps(order)],
            env={**self._environment, "BENCH_JOB": order.get("job", self.job("noop"))},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._log,
            check=False,
        )
        if done.returncode:
            raise Failed(f"its agent failed to {order['do']}: see {self._log.name}")
        return json.loads(done.stdout.splitlines()[-1])


class Workers:
    """The processes of one worker command or more, each in a session of its own."""

    def __init__(self, commands: list[list[str]], environment: dict[str, str], log: IO[bytes]) -> None:
        self._commands, self._environment, self._log = commands, environment, log
        self._processes: list[subprocess.Popen[bytes]] = []
        self.begun = 0

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def start(self) -> None:
        self.begun = time.monotonic_ns()
        self._processes = [
            subprocess.Popen(
                command,
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
            for command in self._commands
        ]

    def kill(self) -> None:
        processes.kill(self.pids)
        for process in self._processes:
            process.wait()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition came true in time; a worker that ends by itself is a failure."""
        give_up = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > give_up:
                return False
            for process in self._processes:
                if process.poll() is not None:
                    raise Failed(f"its worker ended with code {process.returncode}: see {self._log.name}")
            time.sleep(0.01)
        return True


@contextmanager
def stand(peer: Peer, servers: Servers, slots: int, logs: Path) -> Iterator[Stand]:
    """A place for one measurement; what the peer prints goes to a log of its own."""
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / f"{peer.name}.log").open("ab") as log, tempfile.TemporaryDirectory(prefix="tenure-peers-") as folder:
        yield Stand(peer, servers, slots, Path(folder), log)
