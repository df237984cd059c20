"""The audit records of commands: who ran a command that changes something, what it did, and why."""

import getpass
import os
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager

import click

from tenure.app import Tenure

why_option = click.option("--why", metavar="TEXT", help="The reason; it is written to the audit log.")


def audited(
    app: Tenure, action: str, targets: Iterable[str], why: str | None = None
) -> AbstractContextManager[Counter[str]]:
    """Write an audit record of what happens in the block, which adds the counts of results."""
    from tenure.app.dashboard.audit_trail import AuditTrail  # only commands that change something need it

    return AuditTrail(app).recorded(_user(), action, ", ".join(targets), why, "cli")


def _user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        name = f"user {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
