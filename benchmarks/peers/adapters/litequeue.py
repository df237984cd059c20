"""litequeue has no worker: the loop of pop, run and done that everybody writes over it."""

import json
import sys
import time

from litequeue import LiteQueue

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import path


def open() -> None:
    global queue
    queue = LiteQueue(path())


def send(job: str, i: int, pad: str) -> None:
    queue.put(json.dumps({"job": job, "i": i, "pad": pad}))


def worker(processes: int, job: str) -> list[list[str]]:
    return [[sys.executable, "-m", "benchmarks.peers.adapters.litequeue"]] * processes


def serve() -> None:
    open()
    while True:
        if (message := queue.pop()) is None:
            time.sleep(0.01)
            continue
        order = json.loads(message.data)
        SYNC[order["job"]](order["i"], order["pad"])
        queue.done(message.message_id)


if __name__ == "__main__":
    serve()
