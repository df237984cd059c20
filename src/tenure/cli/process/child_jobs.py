"""What a child process does for its parent: load the app, then run the jobs that the parent sends."""

import logging

from tenure.cli.app_loader import import_app
from tenure.cli.logs import set_up_child_logging
from tenure.execution.child.heartbeat import LeaseMonitor
from tenure.execution.child.main import SERVE_BY_RUNNER, leave_signals_to_parent
from tenure.execution.child.orders import OrderPipes
from tenure.execution.shared_memory import SharedMemory


def run_jobs(location: str, kind: str, *numbers: str) -> None:
    slots, orders, quiet_reports, reports, marks, raw_output = map(int, numbers)
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
