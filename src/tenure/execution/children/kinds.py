"""What a child does with its orders: one at a time, on threads, or on an event loop."""

from collections.abc import Callable

from tenure.clock import Clock
from tenure.execution.children.child import Pipes, Resolve, run_in_turn
from tenure.execution.children.event_loop import run_on_loop
from tenure.execution.children.marks import Marks
from tenure.execution.children.threads import run_on_threads

Serve = Callable[[Pipes, Marks, Resolve, Clock], None]
KINDS: dict[str, Serve] = {"process": run_in_turn, "threads": run_on_threads, "event_loop": run_on_loop}
