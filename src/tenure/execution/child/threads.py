"""The child of the `threads` runner: jobs share the process on threads; async handlers get an event loop per thread."""

import queue
import threading

from tenure.clock import Clock
from tenure.execution.attempt import Performer
from tenure.execution.child.heartbeat import ChildHeartbeat
from tenure.execution.child.orders import OrderHandler, OrderPipes, Resolve, end_process
from tenure.execution.deadline import ThreadDeadline, Watchdog
from tenure.execution.outcome import Capture
from tenure.execution.protocol import Order
from tenure.execution.shared_memory import SharedMemory, SharedMemoryLink

OrderQueue = queue.SimpleQueue[Order | None]


def run_on_threads(pipes: OrderPipes, memory: SharedMemory, resolve: Resolve, clock: Clock) -> None:
    """Start one thread for each slot of the shared memory; the main thread only reads orders."""
    waiting: OrderQueue = queue.SimpleQueue()
    orders = OrderHandler(pipes, memory, resolve, clock)
    capture, watchdog = Capture(), Watchdog()
    ChildHeartbeat(memory)

    def work(slot: int) -> None:
        try:
            with Performer(clock, ThreadDeadline(watchdog), capture) as performer:
                while (order := waiting.get()) is not None:
                    if attempt := orders.start(slot, order):
                        link = SharedMemoryLink(memory, slot, order.ticket)
                        orders.report(slot, order, performer.perform(attempt, link))
        except BaseException as error:
            end_process(error)

    threads = [threading.Thread(target=work, args=(slot,), daemon=True) for slot in range(memory.slots)]
    with capture.installed():
        for thread in threads:
            thread.start()
        while (batch := pipes.read()) is not None:
            for order in batch:
                waiting.put(order)
