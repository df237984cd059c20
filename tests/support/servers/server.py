"""Server: one that we started, on a free loopback port, with its data in a temporary folder."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.servers.disk import Disk
from tests.support.servers.kinds import KINDS, Kind, find_programs
from tests.support.servers.packages import UNPACKED, fetch
from tests.support.waiting import eventually, is_alive

START_SECONDS = 60
_TRIES = 3
_HIGHEST = 55_535
STOP_SECONDS = 15


class Missing(Exception):
    """There is no such server on this machine, and it could not be fetched."""


class Server:
    """A running server; it can be killed and started again on the same data and port.

    With a size of `disk` its data lie on a small disk of their own, which can be filled.
    """

    def __init__(self, kind: Kind, durable: bool = False, more: Sequence[str] = (), disk: str | None = None) -> None:
        self.kind = kind
        self._durable = durable
        self._more = more
        self.folder = Path(tempfile.mkdtemp(prefix=f"tenure-{kind.name}-"))
        self.port = free_port()
        self.url = kind.url.format(port=self.port)
        self._log = self.folder / "log"
        self._account = _account(kind)
        self._data = self.folder / "data"
        self._data.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._disk: Disk | None = None
        try:
            self._disk = Disk(self._data, disk) if disk else None
            self._prepare()
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    @property
    def disk(self) -> Disk:
        assert self._disk is not None
        return self._disk

    def _prepare(self) -> None:
        self._programs = _reachable(_programs(self.kind), self.folder, self._account)
        if self._account:
            for path in (self.folder, self._data):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        if command := self.kind.prepare(self._programs, self._data):
            self._wait_for(self._spawn(command))

    def start(self) -> None:
        """Start it, and return once it serves."""
        command = self.kind.start(self._programs, self._data, self.port, self._durable)
        self._process = self._spawn([*command, *self._more])
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.kind.ping(self.port)
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > give_up:
                    raise OSError(f"{self.kind.name} did not start: {self._tail()}") from error
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would, its children included."""
        self.process.send_signal(signal.SIGSTOP)  # it starts no more children
        children = self._children()
        self.process.kill()
        for child in children:
            os.kill(child, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)
        # PostgreSQL does not start while one of them has its shared memory.
        eventually(lambda: not any(map(is_alive, children)), STOP_SECONDS)

    def pause(self) -> None:
        """Stop it where it stands, its children included: connections stay open and nothing is answered."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _children(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _signal_all(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        for child in self._children():
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(child, number)

    def stop(self) -> None:
        """End it and remove its data."""
        if self._process and self._process.poll() is None:
            self._signal_all(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT if self.kind.name == "postgresql" else signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._disk:
            self._disk.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spawn(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        account = self._account
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(self._programs[0]),
                start_new_session=True,  # Ctrl-C is for the tests, which then stop their servers
                **as_user,
            )

    def _wait_for(self, process: "subprocess.Popen[bytes]") -> None:
        if process.wait(START_SECONDS):
            raise OSError(f"{self.kind.name} could not be prepared: {self._tail()}")

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


@contextmanager
def started(name: str, durable: bool = False, more: Sequence[str] = (), disk: str | None = None) -> Iterator[Server]:
    """A server of one's own, gone when the block ends; `more` are arguments of its program."""
    server = _made(KINDS[name], durable, more, disk)
    try:
        yield server
    finally:
        server.stop()


def _made(kind: Kind, durable: bool, more: Sequence[str], disk: str | None) -> Server:
    """A server that runs; a busy machine may fail to start one at first."""
    for _ in range(_TRIES - 1):
        with suppress(OSError):
            return Server(kind, durable, more, disk)
        time.sleep(1)
    return Server(kind, durable, more, disk)


def _programs(kind: Kind) -> list[Path]:
    found = find_programs(kind, UNPACKED)
    if found is None:
        try:
            fetch(kind)
        except OSError as error:
            raise Missing(f"no {kind.name} server: {error}") from error
        found = find_programs(kind, UNPACKED)
    if found is None:
        raise Missing(f"Debian's {kind.packages[0]} holds no {' and '.join(kind.programs)}")
    return found


def _account(kind: Kind) -> pwd.struct_passwd | None:
    """Whom to run it as, when that is not whoever runs this."""
    return pwd.getpwnam("nobody") if kind.refuses_root and os.geteuid() == 0 else None


def _reachable(programs: list[Path], folder: Path, account: pwd.struct_passwd | None) -> list[Path]:
    """The programs, copied when that account may not enter the checkout that holds them."""
    if account is None or _runs(programs[0], account):
        return programs
    copy = shutil.copytree(UNPACKED / "usr", folder / "usr", symlinks=True)
    folder.chmod(0o755)
    return [copy / program.relative_to(UNPACKED / "usr") for program in programs]


def _runs(program: Path, account: pwd.struct_passwd) -> bool:
    try:
        subprocess.run(
            [program, "--version"],
            user=account.pw_uid,
            env=_environment(program),
            capture_output=True,
            check=True,
            cwd="/",
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _environment(program: Path) -> dict[str, str]:
    """Unpacked programs find their libraries beside them; the machine's own are asked last."""
    root = next((parent for parent in program.parents if (parent / "usr").is_dir() and parent != Path("/")), None)
    libraries = [] if root is None else [str(path) for path in root.glob("usr/lib/*-linux-gnu*")]
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(libraries)}


def free_port() -> int:
    """One that is free now; the members of a Redis Cluster use the one 10 000 above as well."""
    while True:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
        if port <= _HIGHEST:
            return port
