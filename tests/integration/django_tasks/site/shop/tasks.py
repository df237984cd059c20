"""Tasks that end in every way, and receivers of Django's signals that write into a file, or fail."""

import json
import os
import time
from pathlib import Path

from django.dispatch import receiver
from task_api import task, task_enqueued, task_finished, task_started

HERE = Path(os.environ["SITE_FOLDER"])


class OutOfStock(Exception):
    """An error class of the project."""


def note(event, result, **more):
    line = {"event": event, "id": result.id, "status": str(result.status), "task": result.task.name, **more}
    with (HERE / "signals").open("a") as file:
        file.write(json.dumps({**line, "pid": os.getpid(), "attempts": result.attempts}) + "\n")


@receiver(task_enqueued)
def note_enqueued(task_result, **_):
    note("enqueued", task_result)


@receiver(task_started)
def note_started(task_result, **_):
    note("started", task_result)
    raise RuntimeError("a receiver that fails")


@receiver(task_finished)
def note_finished(task_result, **_):
    note("finished", task_result, errors=[error.exception_class_path for error in task_result.errors])
    raise RuntimeError("a receiver that fails")


@task
def add(a, b=1):
    return a + b


@task(priority=30, queue_name="emails")
async def greet(name):
    print("not part of the result")  # noqa: T201
    return f"hi {name}"


@task
def echo(*args, **kwargs):
    print("not part of the result")  # noqa: T201
    return [args, kwargs] if args or kwargs else None


@task(takes_context=True, max_retries=2, backoff="none")
def third_time(context):
    if context.attempt < 3:
        raise OutOfStock(f"at attempt {context.attempt}")
    result = context.task_result
    return {
        "id": result.id,
        "attempt": context.attempt,
        "errors": [error.exception_class_path for error in result.errors],
        "workers": len(result.worker_ids),
        "status": str(result.status),
    }


@task(queue_name="order")
def in_order(name):
    with (HERE / "order").open("a") as file:
        file.write(f"{name} ")


@task
def broken():
    raise OutOfStock("no lamps")


@task
async def broken_async():
    raise OutOfStock("no lamps")


@task
def ends_program():
    raise SystemExit("good-bye")


@task(backoff="none")
def kills_its_process():
    os._exit(3)


@task(timeout=0.3)
def too_slow():
    time.sleep(60)


@task
def enqueues_another():
    return add.enqueue(40).id


@task
def returns_object():
    return object()


@task
def returns_much():
    return "x" * 70_000
