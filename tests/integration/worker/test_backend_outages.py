"""A backend is down and several worker processes share their guards: one probe serves all of them."""

import subprocess
import sys
from itertools import pairwise

from tenure import Tenure
from tests.support.waiting import WAIT_SECONDS, eventually

WORKERS = 5
WORKER = """
import sys, time
from pathlib import Path
from tenure import Tenure

name, store, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
app = Tenure("beanstalk://127.0.0.1:1", store=store, environment="development", breaker_cooldown=0.5)
outage = app._runtime._builder.guard_holder(app.backend).backend_breaker()
outage.failed()
(folder / f"ready-{name}").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
while True:
    if pause := outage.pause(name):
        time.sleep(pause)
        continue
    began, is_up = time.monotonic(), (folder / "up").exists()
    time.sleep(0.05)
    if is_up:
        outage.succeeded()
        break
    with open(folder / "probes", "a") as file:
        file.write(f"{began} {time.monotonic()}\\n")
    outage.failed()
"""


def test_one_probe_in_the_whole_fleet_and_all_go_on_when_it_is_answered(tmp_path):
    store = f"sqlite:///{tmp_path / 'store.db'}"
    Tenure(store).close()
    command = [sys.executable, "-c", WORKER]
    workers = [subprocess.Popen([*command, str(number), store, str(tmp_path)]) for number in range(WORKERS)]
    try:
        eventually(lambda: len(list(tmp_path.glob("ready-*"))) == WORKERS)  # each has failed once: it is open
        (tmp_path / "go").touch()
        eventually(lambda: len(probes(tmp_path)) >= 3)
        (tmp_path / "up").touch()
        assert [worker.wait(WAIT_SECONDS) for worker in workers] == [0] * WORKERS
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    asked = probes(tmp_path)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(asked))
    with Tenure("beanstalk://127.0.0.1:1", store=store, environment="development") as app:
        assert app.guards.around_backend().state() == "closed"


def probes(folder):
    """When each began and ended, in order; the clock is that of the machine."""
    file = folder / "probes"
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted(tuple(map(float, line.split())) for line in lines if line.count(" ") == 1)
