"""A program: `drive.py enqueue` enqueues a task for each scene and prints their ids; `drive.py read` prints results.

With SITE_WORKER=inline, `enqueue` also runs a worker in its own process, and prints what it wrote.
"""

import json
import os
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402
from task_api import task_backends  # noqa: E402

from tenure import Tenure  # noqa: E402
from tenure.errors import TenureError  # noqa: E402
from tenure.integrations.django import get_app  # noqa: E402

ORDER = {"low": -100, "below": -20, "usual": 0, "above": 1, "high": 100}


def enqueue():
    from shop import letters, tasks

    call_command("migrate", verbosity=0)
    later = timezone.now() + timedelta(hours=1)
    results = {
        "add": tasks.add.enqueue(1, b=2),
        "greet": tasks.greet.enqueue("Ann"),
        "echo": tasks.echo.enqueue((1, 2.5), text="ä\u0000", more={"deep": [None, True]}),
        "nothing": tasks.echo.enqueue(),
        "third_time": tasks.third_time.enqueue(),
        "broken": tasks.broken.enqueue(),
        "broken_async": tasks.broken_async.enqueue(),
        "ends_program": tasks.ends_program.enqueue(),
        "too_slow": tasks.too_slow.enqueue(),
        "returns_object": tasks.returns_object.enqueue(),
        "returns_much": tasks.returns_much.enqueue(),
        "letter": letters.write_letter.using(priority=-55, queue_name="emails").enqueue(),
        "at": tasks.add.using(run_after=later).enqueue(1),
        "in_an_hour": tasks.add.using(run_after=timedelta(hours=1)).enqueue(1),
        "overdue": tasks.add.using(run_after=timezone.now() - timedelta(days=1)).enqueue(1),
        "unique": tasks.add.using(unique=True).enqueue(7, b=8),
        "twin": tasks.add.using(unique=True).enqueue(7, b=8),
        "other": tasks.add.using(unique=True).enqueue(7, b=9),
        "of_second": tasks.add.using(backend="second", queue_name="emails").enqueue(3),
        "elsewhere": tasks.add.using(backend="elsewhere").enqueue(20),
        "nested": tasks.enqueues_another.using(backend="elsewhere").enqueue(),
        "cancelled": tasks.add.using(run_after=later).enqueue(4),
        **{name: tasks.in_order.using(priority=priority).enqueue(name) for name, priority in ORDER.items()},
    }
    get_app().cancel(results["cancelled"].id)
    if os.environ.get("SITE_WORKER") != "inline":
        results["killer"] = tasks.kills_its_process.enqueue()
    refused = {name: refusal(call) for name, call in refusals(tasks).items()}
    ids = {name: result.id for name, result in results.items()}
    told = {"forged": forge(tasks)}
    return {**told, "ids": ids, "enqueued": {name: shown(each) for name, each in results.items()}, "refused": refused}


def forge(tasks):
    """Enqueue what only someone with the key can: jobs that name a function that is no task, and a plain function."""
    app = get_app()
    stranger = Tenure(app.settings.url, keys=app.settings.keys)
    for name in ("shop.secrets.run", "shop.tasks.note"):
        stranger.job(name=name)(lambda args, kwargs: None)
    meta = tasks.add.using(backend="second", queue_name="default").enqueue(3).id
    meta = app.jobs.get(meta).meta
    forged = [
        stranger.define(name, {"args": [], "kwargs": {}}).meta(**meta).dispatch().id
        for name in ("shop.secrets.run", "shop.tasks.note")
    ]
    stranger.close()
    return forged


def refusals(tasks):
    return {
        "object": lambda: tasks.add.enqueue(object()),
        "nan": lambda: tasks.add.enqueue(float("nan")),
        "retries": lambda: tasks.add.using(max_retries=-1),
        "timeout": lambda: tasks.add.using(timeout="soon"),
        "unique": lambda: tasks.add.using(unique=3),
        "queue": lambda: tasks.add.using(backend="second", queue_name="no queue"),
        "unknown id": lambda: tasks.add.get_result("123"),
        "impossible id": lambda: tasks.add.get_result("a\0b"),
        "unwritable id": lambda: tasks.add.get_result("\ud800"),
        "plain job": lambda: tasks.add.get_result(get_app().define("shop.count").dispatch()),
        "second's": lambda: task_backends["default"].get_result(
            tasks.add.using(backend="second", run_after=timedelta(hours=1)).enqueue(3).id
        ),
    }


def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def in_transaction():
    """What becomes of tasks that are enqueued inside `atomic()`."""
    from shop import tasks

    with transaction.atomic():
        kept = tasks.add.enqueue(5)
        inside = refusal(lambda: tasks.add.get_result(kept.id))
        elsewhere = tasks.add.using(backend="elsewhere").enqueue(30)
    try:
        with transaction.atomic():
            lost = tasks.add.enqueue(6)
            raise LookupError
    except LookupError:
        pass
    return {
        "inside": inside,
        "elsewhere": elsewhere.id,
        "committed": refusal(lambda: tasks.add.get_result(kept.id)),
        "rolled back": refusal(lambda: tasks.add.get_result(lost.id)),
    }


def read(ids):
    aliases = {"of_second": "second", "elsewhere": "elsewhere", "nested": "elsewhere"}
    found = {}
    for name, id in ids.items():
        alias = aliases.get(name, "default")
        found[name] = shown(task_backends[alias].get_result(id))
    return found


def shown(result):
    try:
        value = result.return_value
    except (ValueError, TenureError) as error:
        value = {type(error).__name__: str(error)}
    times = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")
    return {
        "task": result.task.module_path,
        "name": result.task.name,
        "priority": result.task.priority,
        "queue": result.task.queue_name,
        "run_after": result.task.run_after and result.task.run_after.timestamp(),
        "backend": [result.backend, result.task.backend],
        "status": str(result.status),
        "args": result.args,
        "kwargs": result.kwargs,
        "value": value,
        "attempts": result.attempts,
        "worker_ids": result.worker_ids,
        "erased": result.arguments_erased,
        "errors": [
            [each.exception_class_path, each.exception_class.__name__, each.traceback] for each in result.errors
        ],
        **{name: moment and moment.timestamp() for name in times if [moment := getattr(result, name)]},
    }


def states(ids):
    return [get_app().jobs.get(id).state for id in ids]


def work():
    get_app().worker(*get_app().settings.queues, burst=True).run()


if __name__ == "__main__":
    told = json.loads(os.environ.get("SITE_IDS", "{}"))
    if sys.argv[1] == "enqueue":
        told = enqueue()
        if os.environ.get("SITE_WORKER") == "inline":
            work()
            told["results"] = read(told["ids"])
            told["states"] = states(told["forged"])
        told["transaction"] = in_transaction()
    else:
        committed = task_backends["elsewhere"].get_result(told["transaction"]["elsewhere"])
        results = read(told["ids"])
        inner = refusal(lambda: task_backends["default"].get_result(results["nested"]["value"]))
        more = {"committed elsewhere": shown(committed), "inner": inner}
        told = {"results": results, "states": states(told["forged"]), **more}
    print(json.dumps(told))  # noqa: T201
