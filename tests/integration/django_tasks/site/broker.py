"""A program: what a broker that cannot find waiting messages knows about tasks before and after their attempts."""

import json
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.core.checks import run_checks  # noqa: E402
from django_tasks.checks import check_tasks  # noqa: E402
from drive import refusal, shown, work  # noqa: E402
from shop import tasks  # noqa: E402

results = {"add": tasks.add.enqueue(1, b=2), "third_time": tasks.third_time.enqueue(), "broken": tasks.broken.enqueue()}
waiting = refusal(results["add"].refresh)
work()
for result in results.values():
    result.refresh()
told = {name: shown(result.task.get_result(result.id)) for name, result in results.items()}
warnings = [message.id for message in [*check_tasks(), *run_checks()]]
print(json.dumps({"waiting": waiting, "results": told, "checks": warnings}))  # noqa: T201
