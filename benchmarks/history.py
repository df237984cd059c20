"""How long commands take that look at a history of a million ended jobs, and a hundred thousand dead letters."""

import os
import statistics
import time
from collections.abc import Callable

from click.testing import CliRunner

from benchmarks.filled import add_handlers, count_slots, fill_history
from benchmarks.places import place
from tenure import Tenure
from tenure.cli.main import cli
from tenure.wire.signing import new_key

ENDED, DEAD = 1_000_000, 100_000
_ROUNDS = 5
COMMANDS = {
    "health": ["health"],
    "health --all": ["health", "--all"],
    "jobs list": ["jobs", "list"],
    "jobs list --state done": ["jobs", "list", "--state", "done"],
    "jobs list --state dead": ["jobs", "list", "--state", "dead"],
    "jobs list --queue": ["jobs", "list", "--queue", "q3"],
    "jobs list --job": ["jobs", "list", "--job", "h7"],
    "jobs list --job, none such": ["jobs", "list", "--job", "nobody"],
    "jobs list --name": ["jobs", "list", "--name", "name 77"],
    "jobs list --newer-than 1s": ["jobs", "list", "--newer-than", "1s"],
    "jobs list --older-than 1s": ["jobs", "list", "--older-than", "1s"],
    "jobs list --text, none such": ["jobs", "list", "--text", "no such text"],
    "dead list": ["dead", "list"],
}


def history(jobs: int) -> dict[str, float]:  # noqa: ARG001 - every row has one signature
    """Milliseconds of each command, without the start of Python; the median of five."""
    with place() as (url, _):
        os.environ.update(TENURE_URL=url, TENURE_KEYS=new_key().dump())
        try:
            with Tenure() as app:
                begun = time.perf_counter()
                add_handlers(app)
                fill_history(app, url, ENDED, DEAD)
                count_slots(app)
                numbers = {"fill s": time.perf_counter() - begun}
            numbers |= {name: _milliseconds(words) for name, words in COMMANDS.items()}
            with Tenure() as app:
                numbers["app.statistics"] = _median(lambda: app.statistics("24h"))
            return numbers
        finally:
            for name in ("TENURE_URL", "TENURE_KEYS"):
                del os.environ[name]


def _milliseconds(words: list[str]) -> float:
    def call() -> None:
        result = CliRunner().invoke(cli, [*words, "--json"])
        assert result.exit_code == 0, result.output

    call()  # what it imports is not what it costs
    return _median(call)


def _median(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)
