"""The program of a child process: from now on end with the parent, then run jobs for it.

The parent runs it as
`python -m tenure.cli.process.child LOCATION KIND PARENT SLOTS ORDERS QUIET_REPORTS REPORTS MARKS OUTPUT`.
"""

import sys

from tenure.cli.process.process_title import set_process_title
from tenure.execution.child.parent_death import die_with_parent


def main(location: str, kind: str, parent: str, *numbers: str) -> None:
    die_with_parent(int(parent))
    set_process_title("tenure: child")
    # Imported here: it takes seconds on a busy machine, and the parent may end meanwhile.
    from tenure.cli.process.child_jobs import run_jobs

    run_jobs(location, kind, *numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
