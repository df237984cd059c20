"""What an adapter knows of where it runs; standard library only, for it is read inside every peer's environment."""

import os
import sys
from pathlib import Path

URL = os.environ.get("BENCH_URL", "")  # of the server, or of a SQLite file
PEER = os.environ.get("BENCH_PEER", "")  # the name in peers.toml, for adapters that serve several
FOLDER = str(Path(os.environ.get("BENCH_PROBE", "")).parent)  # of this measurement alone
JOB = os.environ.get("BENCH_JOB", "noop_sync")  # the body that is about to be measured
LEASE = 15  # seconds after which a dead worker's job is anybody's, where a peer has a setting for it
RESULT_SECONDS = 3600 if JOB.startswith("result_") else 0  # how long results are kept: only where they are the subject
THREADS = 32  # at once, for bodies that block
AWAITS = 100  # at once, for bodies that await


def command(name: str) -> str:
    """A program that is installed in this environment."""
    return str(Path(sys.executable).parent / name)


def redis_keys(pattern: str) -> int:
    """How many keys of the Redis server have such a name."""
    import redis  # not every peer has it

    with redis.Redis.from_url(URL) as connection:
        return sum(1 for _ in connection.scan_iter(match=pattern, count=10_000))


def path() -> str:
    """The file of a SQLite URL."""
    return URL.removeprefix("sqlite:///")
