"""The program of a child process: load the app, then run the jobs that the parent sends.

The parent runs it as
`python -m tenure.cli.process.child LOCATION KIND PARENT SLOTS ORDERS QUIET_REPORTS REPORTS MARKS OUTPUT`.
"""

import logging
import sys

from tenure.cli.app_loader import import_app
from tenure.cli.logs import set_up_child_logging
from tenure.cli.process.process_title import set_process_title
from tenure.execution.child.heartbeat import LeaseMonitor
from tenure.execution.child.main import SERVE_BY_RUNNER, die_with_parent, leave_signals_to_parent
from tenure.execution.child.orders import OrderPipes
from tenure.execution.shared_memory import SharedMemory


def main(location: str, kind: str, *numbers: str) -> None:
    parent, slots, orders, quiet_reports, reports, marks, raw_output = map(int, numbers)
    set_process_title("tenure: child")
    die_with_parent(parent)
    leave_signals_to_parent()
    logging.getLogger("tenure.settings").setLevel(logging.ERROR)  # the parent has logged its warnings
    app = import_app(location)
    app.discover(*app.settings.modules)
    set_up_child_logging(app.settings)
    pipes = OrderPipes(orders, quiet_reports, reports, raw_output)
    memory = SharedMemory(slots, marks)
    LeaseMonitor(memory)
    pipes.report_ready()
    SERVE_BY_RUNNER[kind](pipes, memory, app.registry.get, app.clock)


if __name__ == "__main__":
    main(*sys.argv[1:])
