"""beanstalkd has no Python framework left: the loop of reserve, run and delete that greenstalk leaves to its users."""

import json
import sys
from urllib.parse import urlsplit

import greenstalk

from benchmarks.peers.bodies import SYNC
from benchmarks.peers.place import LEASE, URL


def open():
    global client
    client = greenstalk.Client((urlsplit(URL).hostname, urlsplit(URL).port))


def send(job, i, pad):
    client.put(_body(job, i, pad), ttr=LEASE)


def send_later(job, i, seconds):
    client.put(_body(job, i, ""), delay=round(seconds), ttr=LEASE)


def send_ranked(job, i, urgent):
    client.put(_body(job, i, ""), priority=1 if urgent else 100, ttr=LEASE)


def _body(job, i, pad):
    return json.dumps({"job": job, "i": i, "pad": pad})


def close():
    client.close()


def worker(processes, job):
    return [[sys.executable, "-m", "benchmarks.peers.adapters.greenstalk"]] * processes


def serve():
    open()
    while True:
        job = client.reserve()
        order = json.loads(job.body)
        SYNC[order["job"]](order["i"], order["pad"])
        client.delete(job)


if __name__ == "__main__":
    serve()
