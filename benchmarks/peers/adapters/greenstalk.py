"""beanstalkd has no Python framework left: the loop of reserve, run and delete that greenstalk leaves to its users."""

import json
import sys
from urllib.parse import urlsplit

import greenstalk

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import LEASE, URL


def open() -> None:
    global client
    client = greenstalk.Client((urlsplit(URL).hostname, urlsplit(URL).port))


def send(job: str, i: int, pad: str) -> None:
    client.put(_body(job, i, pad), ttr=LEASE)


def send_later(job: str, i: int, seconds: float) -> None:
    client.put(_body(job, i, ""), delay=round(seconds), ttr=LEASE)


def send_ranked(job: str, i: int, urgent: bool) -> None:
    client.put(_body(job, i, ""), priority=1 if urgent else 100, ttr=LEASE)


def _body(job: str, i: int, pad: str) -> str:
    return json.dumps({"job": job, "i": i, "pad": pad})


def close() -> None:
    client.close()


def worker(processes: int, job: str) -> list[list[str]]:
    return [[sys.executable, "-m", "benchmarks.peers.adapters.greenstalk"]] * processes


def serve() -> None:
    open()
    while True:
        job = client.reserve()
        order = json.loads(job.body)
        SYNC[order["job"]](order["i"], order["pad"])
        client.delete(job)


if __name__ == "__main__":
    serve()
