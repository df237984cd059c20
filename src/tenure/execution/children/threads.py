"""The `threads` child: jobs share the process on threads; async handlers get a loop of the thread's own."""

import queue
import threading

from tenure.clock import Clock
from tenure.execution.attempt import Performer
from tenure.execution.capture import Capture
from tenure.execution.children.child import Pipes, Resolve, to_attempt, withdrawn
from tenure.execution.children.frames import Order, Report
from tenure.execution.children.marks import Marks
from tenure.execution.deadline import ThreadDeadline, Watchdog

Orders = queue.SimpleQueue[Order | None]


def run_on_threads(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """As many threads as the marks have slots; the main thread only reads orders."""
    orders: Orders = queue.SimpleQueue()
    capture, watchdog = Capture(), Watchdog()

    def work(slot: int) -> None:
        with Performer(clock, ThreadDeadline(watchdog), capture) as performer:
            while (order := orders.get()) is not None:
                if marks.begin(slot, order.ticket):
                    outcome = performer.perform(to_attempt(order, resolve))
                else:
                    outcome = withdrawn(clock)
                pipes.report(Report(order.ticket, outcome))
                marks.end(slot)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(marks.slots)]
    with capture.installed():
        for thread in threads:
            thread.start()
        for batch in pipes.orders():
            for order in batch:
                orders.put(order)
        for _ in threads:
            orders.put(None)
        for thread in threads:
            thread.join()
