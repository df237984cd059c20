"""Starting a worker in the background: a process of its own session, which outlives this command."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import closing
from select import select

import click

from tenure.cli.failures import CommandError
from tenure.cli.processes import command
from tenure.worker.notices import Notices

_LOOK = 0.05
_FINE = (0, 1)  # a bounded run may be over before we look; 1 says that jobs died


def launch(arguments: Sequence[str]) -> None:
    """Returns when the new process works; raises what kept it from that."""
    with closing(Notices()) as notices:
        process = subprocess.Popen(
            command(arguments),
            env={**os.environ, "NOTIFY_SOCKET": notices.address},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # it leads it to its log file, if there is one
            start_new_session=True,
        )
        _wait(process, notices)
    click.echo(f"Working in the background, pid {process.pid}")
    process.returncode = 0  # it is left alone: nobody is to warn that it still runs


def _wait(process: subprocess.Popen[bytes], notices: Notices) -> None:
    cause = "it said nothing"
    while True:
        code = process.poll()
        select([notices], [], [], 0 if code is not None else _LOOK)
        for notice in notices.heard():
            cause = notice.get("STATUS", cause)
            if "READY" in notice:
                return
        if code in _FINE:
            return
        if code is not None:
            raise CommandError(f"the worker ended before it was ready, with code {code}: {cause}")
