"""Run by hand: `python -m tests.support.servers fetch`, or `python -m tests.support.servers redis [--durable]`.

A command may follow after `--`; it finds the address in the same variable that the tests read.
Without a command the server runs until Ctrl-C.
"""

import argparse
import os
import signal
import subprocess
import sys

from tests.support.browser.chromium import CHROMIUM, Chromium, is_complete
from tests.support.promtool import PROMTOOL, Promtool, find_promtool
from tests.support.servers.kinds import KINDS, Kind, find_programs, pgbouncer
from tests.support.servers.packages import UNPACKED, fetch
from tests.support.servers.server import Missing, started
from tests.support.servers.shells import SHELLS, Shell, find_shell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.servers", description=__doc__)
    parser.add_argument("server", choices=["fetch", *KINDS])
    parser.add_argument("--durable", action="store_true", help="what is acknowledged survives a crash")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    try:
        return fetch_missing() if given.server == "fetch" else serve(given.server, given.durable, command)
    except Missing as missing:
        sys.exit(str(missing))


def fetch_missing() -> int:
    """Fetch what is neither named nor installed; a failure counts only where everything is expected."""
    failed = False
    for kind in (*KINDS.values(), pgbouncer(upstream=0)):
        if not os.environ.get(kind.variable) and not find_programs(kind, UNPACKED):
            failed |= not is_fetched(kind)
    if not is_complete():
        failed |= not is_fetched(CHROMIUM)
    if find_promtool() is None:
        failed |= not is_fetched(PROMTOOL)
    for shell in SHELLS:
        if find_shell(shell) is None:
            failed |= not is_fetched(shell)
    return int(failed and os.environ.get("CI") == "true")


def is_fetched(kind: Kind | Chromium | Promtool | Shell) -> bool:
    print(f"Fetching {kind.name}", flush=True)  # noqa: T201
    try:
        fetch(kind)
    except OSError as error:
        print(f"No {kind.name}, its tests will be skipped: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def serve(name: str, durable: bool, command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with started(name, durable) as server:
        if command:
            return subprocess.run(command, env={**os.environ, server.kind.variable: server.url}, check=False).returncode
        print(f"{server.kind.variable}={server.url}", flush=True)  # noqa: T201
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


sys.exit(main())
