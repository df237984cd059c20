"""The app under measurement: one handler that marks its start and does nothing else."""

import os
from pathlib import Path

from benchmarks.probe import Probe
from tenure import Tenure

app = Tenure()
probe = Probe(Path(os.environ["BENCH_PROBE"]))


@app.job
def noop(i: int) -> None:
    probe.mark(i)
