"""Real servers for tests and benchmarks: found or fetched, started on a free loopback port, stopped by their pid.

A server comes from an address in the environment, a program that is installed, or Debian's package, which is
unpacked into `.servers/` without touching the system. Nothing that runs already is ever touched.
Standard library only: `make servers` runs before anything is installed.
"""

from tests.support.servers.kinds import KINDS, Kind
from tests.support.servers.server import Missing, Server, free_port, started

__all__ = ["KINDS", "Kind", "Missing", "Server", "free_port", "started"]
