"""A site: one folder with an app, a database and the real worker processes that a test starts on it."""

import fcntl
import importlib.util
import os
import shutil
import signal
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.events import Enqueued
from tests.support.command_line import CommandLine
from tests.support.waiting import WAIT_SECONDS, eventually

GONE_SECONDS = 10.0  # less than a lease, at whose end a child process ends anyway
NEVER = 3600.0  # seconds


class Worker:
    """`tenure work` as a process, with whatever it has started."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def children(self):
        """The pids of its child processes."""
        return [pid for pid, stat in processes() if stat[1] == str(self.pid) and stat[0] != "Z"]

    def family(self):
        """Every living process of its session: itself, its children, and theirs."""
        return [pid for pid, stat in processes() if stat[3] == str(self.pid) and stat[0] != "Z"]

    def send(self, number, *pids):
        """A signal to the worker itself, or to these processes."""
        for pid in pids or [self.pid]:
            os.kill(pid, number)

    def stop_at_once(self):
        """Two SIGTERM, the second once the first was heard: they would count as one."""
        self.send(signal.SIGTERM)
        while not self.process.stderr.readline().startswith("Stopping"):
            assert self.process.poll() is None
        self.send(signal.SIGTERM)

    def report(self):
        """How it is now, and what it has printed, for the message of a failed test."""
        printed = []
        for stream in (self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)
            with suppress(BlockingIOError):
                printed.append(os.read(stream.fileno(), 1 << 16).decode())
        return f"worker {self.pid}: exit code {self.process.poll()}, family {self.family()}, printed {printed}"

    def end(self):
        """Its exit code, and all it said, once it ends."""
        said, complained = self.process.communicate(timeout=WAIT_SECONDS)
        return SimpleNamespace(code=self.process.returncode, out=said, err=complained)


def processes():
    """Each process of this host by pid, with its fields: state, parent, group, session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def wait_until_all_gone(workers, seconds):
    """Wait until no process of these workers is left; a failure names those that are."""
    try:
        eventually(lambda: not any(worker.family() for worker in workers), seconds)
    except AssertionError as error:
        left = [describe(pid) for worker in workers for pid in worker.family()]
        raise AssertionError("\n".join([f"processes of workers are left after {seconds:g} s:", *left])) from error


def describe(pid):
    """The pid, the state and the command line of a process."""
    state = dict(processes()).get(pid, ["ended"])[0]
    with suppress(FileNotFoundError, ProcessLookupError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{pid} {state} {command}"
    return f"{pid} ended"


class Site:
    """Where a test puts jobs, starts workers, and hears what the handlers say."""

    def __init__(self, folder, shop, command_line):
        self.folder = folder
        self.shop = shop
        self.app = shop.app
        self._command_line = command_line
        self.workers = []
        self.enqueued = set()
        self.app.listen(self._count)

    def _count(self, event):
        if isinstance(event, Enqueued):
            self.enqueued.update(event.ids)

    def work(self, runner="process", concurrency=2, *options, lease=15, **environment):
        """Start a worker; it works until it is told to stop, unless the options say otherwise."""
        arguments = ["work", "--runner", runner, "--concurrency", str(concurrency), *options]
        worker = Worker(self._command_line.start(*arguments, TENURE_LEASE=str(lease), **environment))
        self.workers.append(worker)
        return worker

    def burst(self, runner="process", concurrency=2, **environment):
        """Work until nothing is ready, and tell how that ended."""
        return self.work(runner, concurrency, "--burst", **environment).end()

    def journal(self, word, id=None):
        """The lines with this word, of one job or of all: (job, pid, time)."""
        lines = [line.split() for line in self._lines("journal")]
        return [(line[1], int(line[2]), float(line[3])) for line in lines if line[0] == word and id in (None, line[1])]

    def wait_for(self, word, id=None, times=1):
        """Wait until handlers have said this word so often; the pid of the last."""
        try:
            eventually(lambda: len(self.journal(word, id)) >= times)
        except AssertionError as error:
            lines = [*self._lines("journal"), *(worker.report() for worker in self.workers)]
            raise AssertionError("\n".join([f"waited for {times} × {word}; the journal has:", *lines])) from error
        return self.journal(word, id)[-1][1]

    def say(self, word):
        """Tell waiting handlers something."""
        (self.folder / word).touch()

    def job(self, id):
        return self.app.backend.jobs.find(id)

    def wait_for_end(self, *ids, seconds=WAIT_SECONDS):
        """Wait until these jobs have ended; what is known of each."""
        ended = ("done", "dead", "cancelled", "expired")
        eventually(lambda: all(self.job(id).state in ended for id in ids), seconds)
        return [self.job(id) for id in ids]

    def wait_for_ready(self, *ids):
        """Wait until these jobs are back in their place."""
        eventually(lambda: all(self.job(id).state == "ready" for id in ids))

    @contextmanager
    def holding_up_writers(self):
        """Meanwhile nobody can write to the database."""
        with (self.folder / "jobs.db-gate").open("r+") as gate, (self.folder / "jobs.db-slot").open("r+") as slot:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(slot, fcntl.LOCK_EX)
            yield

    def freeze(self, worker, *pids):
        """Stop these processes, at a moment when they hold nothing that others need."""
        with self.holding_up_writers():
            worker.send(signal.SIGSTOP, *pids)

    def steal(self, id):
        """Give the lease of a running job to another owner, and return that owner.

        It is one statement: if the lease only expired, its own worker could reap it and run the job once more.
        """
        take = """
        UPDATE tenure_lease SET owner = 'thief', fence = fence + 1, expires = expires + 3600 * 1000000
        WHERE key = (SELECT key FROM tenure_job WHERE id = ?)
        """

        def taken():
            with closing(sqlite3.connect(self.folder / "jobs.db")) as database, database:
                return database.execute(take, [id]).rowcount

        eventually(taken)  # a lease of several jobs gets rows of its own when it is renewed
        return "thief"

    def make_suspect(self, job):
        """Enqueue a job whose last worker vanished, as the reaper of another worker finds it."""
        id = job.enqueue()
        self.app.backend.lease(["default"], limit=1, seconds=0.001)
        eventually(lambda: self.app.backend.reap(["default"], suspect_after=1))
        return id

    def suspect_workers(self):
        """The pids of the processes that workers have started for suspects."""
        return [pid for pid, _ in processes() if self._runs_suspects(pid)]

    def _runs_suspects(self, pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return b"--suspects" in command and Path(f"/proc/{pid}/cwd").readlink() == self.folder
        return False

    def wait_until_gone(self, pid):
        eventually(lambda: pid not in dict(processes()))

    def break_children(self, code):
        """Have the app do this when a child imports it, and not when the worker does."""
        source = self.folder / "shop.py"
        source.write_text(f"{source.read_text()}\nif 'tenure.cli.process.child' in sys.orig_argv:\n    {code}\n")

    def set_in_worker(self, module, **values):
        """Have workers and children that start from now on set these values of a module."""
        source = self.folder / "shop.py"
        change = f"vars(importlib.import_module({module!r})).update({values!r})"
        source.write_text(f"{source.read_text()}\nimport importlib\n{change}\n")

    def never_kill(self):
        """Give jobs any time to stop: a busy machine may need more than the second after which a child is killed."""
        self.set_in_worker("tenure.execution.parent.stop_rules", KILL_GRACE=NEVER)

    def never_hand_back(self):
        """Let jobs wait for their start: on a busy machine they may wait so long that they would go back."""
        self.set_in_worker("tenure.execution.parent.runner", _MAX_ORDER_WAIT=NEVER)
        self.set_in_worker("tenure.worker.keeper", _UNSTARTED_SECONDS=NEVER)

    def events(self, name):
        """What the workers' listeners were told of this kind."""
        return [line for line in self._lines("events") if line.startswith(name)]

    def _lines(self, name):
        """The lines of a file that are complete, while others append to it."""
        path = self.folder / name
        return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []

    def counts(self):
        """How many jobs are in each state that has any."""
        return {state: count for state, count in self.app.backend.queues.counts()["default"].items() if count}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with the app of shop.py, an empty database, and no worker yet.

    At the end every job that was enqueued is still somewhere, and a worker that still runs is killed:
    nothing that it has started may outlive it.
    """
    shutil.copy(Path(__file__).parents[2] / "support/apps/shop.py", tmp_path)
    command_line = CommandLine(tmp_path)
    for name, value in command_line.environment.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("shop", tmp_path / "shop.py")
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    try:
        with shop.app:
            site = Site(tmp_path, shop, command_line)
            yield site
            assert [id for id in site.enqueued if site.job(id) is None] == []
        for worker in site.workers:
            worker.process.kill()
        for pid in site.suspect_workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until_all_gone(site.workers, WAIT_SECONDS)
    finally:
        command_line.close()


@pytest.fixture
def nobody_left():
    """Checks that whatever a worker had started is gone with it; the kernel takes a moment to end a process."""
    return lambda worker: wait_until_all_gone([worker], GONE_SECONDS)


@pytest.fixture
def counted():
    """What a job has cost: its attempts and its crashes."""
    return lambda record: (record.state, record.attempts, record.crashes)


def pytest_collection_modifyitems(items):
    """These tests wait for real processes: one that hangs is shown by its own stack, not by a killed session."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(180, method="thread"))
