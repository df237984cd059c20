"""The `threads` child: jobs share the process on threads; async handlers get a loop of the thread's own."""

import queue
import threading

from tenure.clock import Clock
from tenure.execution.attempt import Performer
from tenure.execution.capture import Capture
from tenure.execution.children.child import Desk, Pipes, Resolve, end_process
from tenure.execution.children.frames import Order
from tenure.execution.children.marked_link import MarkedLink
from tenure.execution.children.marks import Marks
from tenure.execution.children.pulse import Pulse
from tenure.execution.deadline import ThreadDeadline, Watchdog

Orders = queue.SimpleQueue[Order | None]


def run_on_threads(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """As many threads as the marks have slots; the main thread only reads orders."""
    waiting: Orders = queue.SimpleQueue()
    desk = Desk(pipes, marks, resolve, clock)
    capture, watchdog = Capture(), Watchdog()
    Pulse(marks)

    def work(slot: int) -> None:
        try:
            with Performer(clock, ThreadDeadline(watchdog), capture) as performer:
                while (order := waiting.get()) is not None:
                    if attempt := desk.begin(slot, order):
                        link = MarkedLink(marks, slot, order.ticket)
                        desk.report(slot, order, performer.perform(attempt, link))
        except BaseException as error:
            end_process(error)

    threads = [threading.Thread(target=work, args=(slot,), daemon=True) for slot in range(marks.slots)]
    with capture.installed():
        for thread in threads:
            thread.start()
        while (orders := pipes.read()) is not None:
            for order in orders:
                waiting.put(order)
