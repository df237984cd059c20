"""Correctness: what becomes of jobs while their worker is killed with -9 again and again."""

import time
from typing import TYPE_CHECKING

from benchmarks.peers.probe import Probe
from benchmarks.peers.stand import BOOT, Stand

if TYPE_CHECKING:
    from benchmarks.peers.rows import Budget

JOBS = 1000
SHARES = (0.1, 0.2, 0.3)  # of the jobs that have started when the worker is killed; the rest keeps it busy meanwhile
SLOTS = 2 * JOBS  # those, and what comes in later
LIMIT = 60.0
PATIENCE = 25.0  # without any progress: more than the lease that peers are given, and the pause between their checks
GRACE = 1.0  # a job may be run again that ended this shortly before a kill: its acknowledgement was under way


def kills(stand: Stand, budget: "Budget") -> dict[str, float]:
    """Jobs of 5 ms; three times every process of the worker is killed among them, and it is started again.

    Lost or stuck jobs have not finished when nothing has moved for long: gone, or held by a lease that outlasts it.
    Doubled ones finished and ran again; those that had finished well before any kill have no excuse.
    """
    job, killed = stand.job("pause"), []
    jobs = stand.fill(job, min(JOBS, budget.jobs), BOOT).jobs
    with stand.worker(job) as workers:
        for share in SHARES:
            if not workers.wait(lambda share=share: stand.probe.ran(jobs) >= share * jobs, PATIENCE):
                break  # it does not come back
            workers.kill()
            killed.append(time.monotonic_ns())
            workers.start()
        _settle(stand, job, jobs)
    return judge(stand.probe, jobs, killed)


def _settle(stand: Stand, job: str, jobs: int) -> None:
    """Until all have finished, or nothing has moved for long; a job now and then comes in, for some look only then."""
    begun = moved = time.monotonic()
    ended, more = stand.probe.ended(jobs), 0
    while ended < jobs and time.monotonic() < min(moved + PATIENCE, begun + LIMIT):
        stand.send(job, 1, 0, "spaced", first=jobs + more, gap=0.5)
        more += 1
        if (now := stand.probe.ended(jobs)) > ended:
            ended, moved = now, time.monotonic()


def judge(probe: Probe, jobs: int, killed: list[int]) -> dict[str, float]:
    """What the probe says, given the moments of the kills."""
    lost = sum(1 for i in range(jobs) if not probe.finished[i])
    again = [i for i in range(jobs) if probe.runs[i] > 1]
    doubled = [i for i in again if probe.finished[i] and probe.started[i] > probe.finished[i]]
    unexplained = [i for i in doubled if not any(0 <= kill - probe.finished[i] <= GRACE * 1e9 for kill in killed)]
    return {
        "jobs": float(jobs),
        "kills": float(len(killed)),
        "lost or stuck": float(lost),
        "run again": float(len(again)),
        "doubled": float(len(doubled)),
        "unexplained": float(len(unexplained)),
    }
