"""The app under test: handlers that behave, and handlers that do what handlers should not.

It is copied beside the database; every handler tells the test what it does by a line in the file `journal`.
"""

import asyncio
import ctypes
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tenure import PROVIDED, Context, Fail, Tenure, current_context
from tenure.errors import Cancelled
from tenure.events import Event, LeaseLost

app = Tenure()
here = Path(__file__).parent
HOUR = 3600


def note(word: str) -> None:
    """What happened, to which job, in which process, when."""
    append("journal", f"{word} {current_context().id} {os.getpid()} {time.monotonic()}\n")


def append(file: str, line: str) -> None:
    """In one write, so that lines of several processes stay whole."""
    descriptor = os.open(here / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@app.listen
def tell(event: Event) -> None:
    if isinstance(event, LeaseLost):
        append("events", f"LeaseLost {event.verb} {' '.join(event.ids)}\n")


def released() -> bool:
    return (here / "released").exists()


def until_released() -> None:
    while not released():
        time.sleep(0.005)


@app.job
def quick(number: int = 0) -> int:
    note("ran")
    return number


class Till:
    """A value that the app opens for each job, and closes after it."""


class AsyncTill(Till):
    """The same for async handlers."""


def open_till() -> Iterator[Till]:
    note("opened")
    try:
        yield Till()
    finally:
        note("closed")


async def open_async_till() -> AsyncIterator[AsyncTill]:
    note("opened")
    try:
        yield AsyncTill()
    finally:
        await asyncio.sleep(0)
        note("closed")


app.provide(Till, open_till)
app.provide(AsyncTill, open_async_till)


@app.job
def pay(amount: int, seconds: float = 0, till: Till = PROVIDED) -> str:
    note("ran")
    time.sleep(seconds)
    return f"{amount} into a {type(till).__name__}"


@app.job
async def pay_async(amount: int, seconds: float = 0, till: AsyncTill = PROVIDED) -> str:
    note("ran")
    await asyncio.sleep(seconds)
    return f"{amount} into a {type(till).__name__}"


@app.job
def nothing() -> None:
    """The shortest job."""


@app.job
async def glide(number: int = 0) -> int:
    note("ran")
    await asyncio.sleep(0)
    return number


@app.job
def glide_if_awaited() -> object:
    """A plain function that returns a coroutine, as one under a careless decorator does."""
    return glide(7)


@app.job
def glide_lazily() -> object:
    return (note("ran") for _ in range(3))


@app.job
def charge(ctx: Context) -> None:
    with ctx.breaker("stripe"):
        note("ran")


@app.job
async def charge_later(ctx: Context) -> None:
    async with ctx.breaker("stripe"):
        note("ran")


class ByError:
    """A policy that needs the exception of the handler."""

    def delay(self, retry: int, error: Exception | None) -> float | None:
        return getattr(error, "seconds", None)


class Busy(Exception):
    seconds = 4000.0


ERRORS = {"busy": Busy, "lost": ConnectionError, "wrong": ValueError, "failed": lambda: Fail("no such order")}


@app.job(max_retries=9, retry=ByError(), retry_on=lambda error: isinstance(error, (Busy, OSError)))
def order(error: str) -> None:
    raise ERRORS[error]()


@app.job(max_retries=9, retry=ByError(), retry_on=(Busy, OSError))
async def order_async(error: str) -> None:
    raise ERRORS[error]()


@app.job
def hold() -> None:
    note("started")
    until_released()
    note("finished")


@app.job
async def linger() -> None:
    note("started")
    while not released():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.005)
    note("finished")


@app.job
async def nap(seconds: float) -> None:
    note("started")
    await asyncio.sleep(seconds)


_met: list[asyncio.Event] = []


@app.job
async def meet(count: int) -> None:
    """Ends when so many of them run at once."""
    all_are_here = asyncio.Event()
    _met.append(all_are_here)
    if len(_met) == count:
        for each in _met:
            each.set()
    await all_are_here.wait()


@app.job
def sleep(seconds: float) -> None:
    note("started")
    time.sleep(seconds)
    note("finished")


def exit_0() -> None:
    os._exit(0)


def exit_1() -> None:
    os._exit(1)


def fall() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.job
def fail() -> None:
    raise ValueError("no luck")


@app.job
def kill_worker() -> None:
    note("started")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(HOUR)


def close_everything() -> None:
    os.closerange(3, 256)
    time.sleep(HOUR)


def garble() -> None:
    """Write to the pipe that reports go through, as code does that guesses descriptors."""
    os.write(int(sys.argv[-3]), b"\xff" * 64)
    time.sleep(HOUR)


def garble_quietly() -> None:
    """The same with the pipe for which the parent does not wait."""
    os.write(int(sys.argv[-4]), b"\xff" * 64)
    time.sleep(HOUR)


DEATHS = {
    "exit 0": exit_0,
    "exit 1": exit_1,
    "fall": fall,
    "abort": os.abort,
    "kill": kill_itself,
    "close": close_everything,
    "garble": garble,
    "garble quietly": garble_quietly,
}


@app.job(backoff="none")
def die(ctx: Context, how: str, times: int = HOUR) -> str:
    """Die until that many crashes were charged."""
    note("started")
    if ctx.crashes < times:
        sys.stderr.write(f"about to {how}\n")
        DEATHS[how]()
    return "survived"


STEPS = {
    **DEATHS,
    "nothing": lambda: None,
    "hold": until_released,
    "sleep": lambda: time.sleep(0.2),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


@app.job(backoff="none")
def step(ctx: Context, do: str = "nothing") -> None:
    """As a rule so short that a child gets many of them at once; the first attempt may do something else."""
    note(do.replace(" ", "-"))
    if ctx.crashes == 0:
        STEPS[do]()


@app.job(backoff="none")
def die_in_company(ctx: Context) -> None:
    """Die once all the jobs that hold are running too."""
    note("started")
    while not (here / "enough").exists():
        time.sleep(0.005)
    if ctx.crashes == 0:
        os._exit(9)


@app.job
def leave(code: int = 0) -> None:
    note("started")
    sys.exit(code)


@app.job
def raise_base() -> None:
    class Odd(BaseException):
        """Of no kind that anybody expects."""

    raise Odd("not an Exception")


@app.job
def outgrow(megabytes: int = 200) -> None:
    note("started")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 19), resource.RLIM_INFINITY))
    bytearray(megabytes << 20)


@app.job(max_crashes=0)
def hog(megabytes: int = 60) -> None:
    """Fill memory, then be killed as the kernel kills."""
    kept = bytearray(os.urandom(1 << 20) * megabytes)
    note("started")
    os.kill(os.getpid(), signal.SIGKILL)
    del kept


@app.job
def seize(seconds: int) -> str:
    """A call into C that keeps the interpreter lock; a signal must not end it early."""
    note("started")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.PyDLL(None).sleep(seconds)
    note("finished")
    return "woke"


@app.job
def sink(seconds: int = HOUR) -> None:
    """A call into C that frees the interpreter lock and hears nothing; a signal must not end it early."""
    note("started")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.CDLL(None).sleep(seconds)


@app.job
def deaf() -> None:
    note("started")
    while True:
        try:
            time.sleep(HOUR)
        except BaseException:
            note("ignored")


@app.job
def spin() -> None:
    note("started")
    while True:
        pass


@app.job
async def clog(seconds: float = HOUR) -> None:
    """A coroutine that blocks its loop."""
    note("started")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


gate: asyncio.Future[None] | None = None


@app.job
async def clog_behind_open() -> None:
    """Blocks its loop in the very turn in which `open_gate` ends."""
    global gate
    gate = asyncio.get_running_loop().create_future()
    await gate
    time.sleep(HOUR)  # noqa: ASYNC251 - that is the point


@app.job
async def open_gate() -> None:
    while gate is None:  # noqa: ASYNC110 - the other may not have begun
        await asyncio.sleep(0.005)
    note("ran")
    gate.set_result(None)


@app.job
def fork(returns: bool = False) -> str:
    note("started")
    if pid := os.fork():
        os.waitpid(pid, 0)
        return "the parent returned"
    if returns:
        return "the copy returned"
    os._exit(0)


@app.job
def fork_and_stay() -> None:
    """Leave a copy behind that holds every descriptor open."""
    if os.fork() == 0:
        time.sleep(HOUR)
    note("started")
    time.sleep(HOUR)


@app.job
def call_program() -> None:
    """Wait for a program, whatever happens; its pid is told."""
    program = subprocess.Popen(["sleep", str(HOUR)])
    note(f"program:{program.pid}")
    while True:
        try:
            program.wait()
        except BaseException:
            note("ignored")


@app.job
def stop_what_it_started() -> list[int]:
    """A program and a copy of itself, both told to end; how each did."""
    program = subprocess.Popen(["sleep", str(HOUR)])
    program.terminate()
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(HOUR,))
    copy.start()
    copy.terminate()
    copy.join()
    return [program.wait(), copy.exitcode]


@app.job
def change_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.5)


@app.job
def move_away() -> None:
    os.chdir("/")
    os.umask(0o777)


@app.job
def where() -> str:
    mask = os.umask(0)
    os.umask(mask)
    return f"{Path.cwd()} {mask:o}"


_libc = ctypes.CDLL(None)
_ALL_SIGNALS = ctypes.create_string_buffer(b"\xff" * 128)
CHANGES = {
    "handle SIGTERM": lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    "handle SIGINT": lambda: signal.signal(signal.SIGINT, lambda *_: None),
    "handle SIGALRM": lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN),
    "set a timer": lambda: signal.setitimer(signal.ITIMER_REAL, HOUR, 1.0),
    "set an alarm in C": lambda: _libc.alarm(HOUR),
    "block a signal": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]),
    "block signals in C": lambda: _libc.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS, None),
    "umask": lambda: os.umask(0o777),
    "umask in C": lambda: _libc.umask(0o777),
    "folder": lambda: os.chdir("/"),
    "folder in C": lambda: _libc.chdir(b"/"),
    "close stdin": lambda: os.close(0),
    "close stdout": lambda: os.close(1),
    "close stderr": lambda: os.close(2),
    "close stdout in C": lambda: _libc.close(1),
    "replace streams": lambda: setattr(sys, "stdout", None) or setattr(sys, "stderr", None),
}


@app.job
def change(what: str) -> None:
    CHANGES[what]()


@app.job
def describe() -> list[object]:
    """All that a job may change in its process, and the process."""
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    streams = [os.fstat(stream).st_ino for stream in (0, 1, 2)]
    objects = [id(sys.stdin), id(sys.stdout), id(sys.stderr)]
    return [os.getpid(), where(), handlers, signal.getitimer(signal.ITIMER_REAL), blocked, streams, objects]


@app.job
def close_streams(descriptors: bool = True) -> None:
    if descriptors:
        os.closerange(0, 3)
    else:
        sys.stderr.close()


@app.job
def shout() -> str:
    """To every stream there is."""
    sys.stderr.write("heard\n")
    os.write(1, b"raw\n")
    print("said")  # noqa: T201 - as handlers do
    return "shouted"


@app.job
def speak_in_turn() -> None:
    """To standard output in each way there is, one after the other."""
    print("printed")  # noqa: T201 - as handlers do
    subprocess.run(["sh", "-c", "echo program"], check=True)
    os.write(1, b"written\n")
    subprocess.run(["sh", "-c", "echo to the stream"], check=True, stdout=sys.stdout)
    sys.stdout.writelines(["lines\n"])
    os.write(1, "naïve ☃".encode()[:-1])
    os.write(1, "naïve ☃".encode()[-1:])
    sys.__stdout__.write(" buffered\n")


@app.job
def flood_by_program(megabytes: int) -> None:
    subprocess.run(["sh", "-c", f"head -c {megabytes << 20} /dev/zero | tr '\\0' x"], check=True)


@app.job
def flood(megabytes: int = 4) -> None:
    note("started")
    line = b"x" * 1023 + b"\n"
    for _ in range(megabytes << 10):
        sys.stdout.write(line.decode())
        os.write(2, line)


@app.job
def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(HOUR,)).start()


@app.job
def mumble() -> None:
    """A text whose characters are written byte by byte."""
    for byte in "ééééé\n".encode():
        os.write(2, bytes([byte]))
        time.sleep(0.02)  # so that they are read one by one


@app.job
def count(ctx: Context, upto: int, total: int | None = None) -> None:
    note("started")
    for done in range(upto + 1):
        ctx.progress(done, total)
    note("counted")
    until_released()


@app.job
async def count_async(ctx: Context, upto: int, total: int | None = None) -> None:
    note("started")
    for done in range(upto + 1):
        ctx.progress(done, total)
    note("counted")
    while not released():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.005)


@app.job
def tidy_up(ctx: Context) -> None:
    note("started")
    try:
        while True:
            time.sleep(0.005)
    finally:
        note(f"tidied:{ctx.cancelled}")


@app.job
async def tidy_up_async(ctx: Context) -> None:
    note("started")
    try:
        await asyncio.sleep(HOUR)
    finally:
        note(f"tidied:{ctx.cancelled}")


@app.job
def finish_all_the_same() -> str:
    note("started")
    try:
        while True:
            time.sleep(0.005)
    except Cancelled:
        return "saved"


@app.job(max_retries=5)
def complain() -> None:
    note("started")
    try:
        while True:
            time.sleep(0.005)
    except BaseException as error:
        raise ValueError("something stopped me") from error


@app.job
def watch_for_it(ctx: Context) -> None:
    """In code that hears no interrupt, one can look."""
    note("started")
    while True:
        try:
            while not ctx.cancelled:
                time.sleep(0.005)
        except Cancelled:
            note("ignored")
        ctx.raise_if_cancelled()


class Parcel:
    """A handler class that tells of each of its steps."""

    def before_run(self, ctx: Context) -> None:
        note("before")

    def handle(self, ctx: Context, payload: dict) -> str:
        assert current_context() is ctx
        assert ctx.time_left is not None
        print(f"fence {ctx.fence}, {0 < ctx.time_left <= 30}")  # noqa: T201 - as handlers do
        return f"attempt {ctx.attempt} of {payload['to']}"

    def after_run(self, ctx: Context, outcome) -> None:
        note(f"after:{outcome.kind}")


class AsyncParcel(Parcel):
    async def handle(self, ctx: Context, payload: dict) -> str:
        await asyncio.sleep(0)
        return Parcel.handle(self, ctx, payload)


class _AsyncHooks:
    """Hooks that await before they tell; `payload` may name one that never ends."""

    async def before_run(self, ctx: Context) -> None:
        await self._pass_by("before_run", ctx)
        note("before")

    async def after_run(self, ctx: Context, outcome) -> None:
        await self._pass_by("after_run", ctx)
        note(f"after:{outcome.kind}")

    async def _pass_by(self, name: str, ctx: Context) -> None:
        await asyncio.sleep(HOUR if ctx.payload.get("hang") == name else 0)


class GentleParcel(_AsyncHooks, Parcel):
    """A plain handler with async hooks."""


class GentleAsyncParcel(_AsyncHooks, AsyncParcel):
    """An async handler with async hooks."""


class LazyParcel(Parcel):
    """Plain hooks of which one may never end."""

    def before_run(self, ctx: Context) -> None:
        self._pass_by("before_run", ctx)
        note("before")

    def after_run(self, ctx: Context, outcome) -> None:
        self._pass_by("after_run", ctx)
        note(f"after:{outcome.kind}")

    def _pass_by(self, name: str, ctx: Context) -> None:
        while ctx.payload.get("hang") == name:
            time.sleep(0.005)


app.register("parcel", Parcel, timeout=30)
app.register("async_parcel", AsyncParcel, timeout=30)
app.register("gentle_parcel", GentleParcel, timeout=30)
app.register("gentle_async_parcel", GentleAsyncParcel, timeout=30)
app.register("lazy_parcel", LazyParcel, timeout=30)
