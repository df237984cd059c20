"""The program of a child process: load the app, then run what the parent orders.

`python -m tenure.cli.child LOCATION KIND PARENT ORDERS REPORTS MARKS SLOTS`; the parent is the only one to start it.
"""

import sys

from tenure.cli.loading import find
from tenure.cli.titles import set_title
from tenure.execution.children.child import Pipes, die_with_parent
from tenure.execution.children.kinds import KINDS
from tenure.execution.children.marks import Marks
from tenure.execution.children.signals import leave_signals_to_parent


def main(location: str, kind: str, *numbers: str) -> None:
    parent, slots, orders, reports, marks = map(int, numbers)
    set_title("tenure: child")
    die_with_parent(parent)
    leave_signals_to_parent()
    app = find(location)
    app.discover(*app.settings.modules)
    pipes = Pipes(orders, reports)
    pipes.hello()
    KINDS[kind](pipes, Marks(slots, marks), app.registry.get, app.clock)


if __name__ == "__main__":
    main(*sys.argv[1:])
