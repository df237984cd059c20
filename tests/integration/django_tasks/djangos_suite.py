"""A program: runs Django's own tests of its tasks with our backends in the places of Django's, and own_cases.py.

It prints the results as JSON.

`python djangos_suite.py` needs Django 6, the tests of its source distribution, and Tenure on the path of modules.
"""

import json
import sys
import unittest

import django
import django.tasks
from django.conf import settings

settings.configure(
    SECRET_KEY="for tests",
    INSTALLED_APPS=["tenure.integrations.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TIME_ZONE="UTC",
    USE_TZ=False,
)
django.setup()

from django.test.runner import DiscoverRunner  # noqa: E402
from django.utils.module_loading import import_string  # noqa: E402

from tenure.integrations.django import get_app  # noqa: E402
from tenure.integrations.django.tasks import TenureBackend  # noqa: E402
from tenure.testing import run_due  # noqa: E402

MODULES = ("test_tasks", "test_dummy_backend", "test_immediate_backend", "test_custom_backend")


class WaitingTasks(TenureBackend):
    """In the place of the DummyBackend: no worker runs, and the tests ask for all results."""

    def clear(self):
        jobs = get_app().jobs
        jobs.cancel(all=True)
        jobs.delete(all=True)

    @property
    def results(self):
        return [self.get_result(id) for id in sorted(job.id for job in get_app().jobs.find())]


class RunTasks(TenureBackend):
    """In the place of the ImmediateBackend: a worker runs each task before `enqueue` returns."""

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        run_due(get_app())
        result.refresh()
        return result


OURS = {
    "django.tasks.backends.dummy.DummyBackend": WaitingTasks,
    "django.tasks.backends.immediate.ImmediateBackend": RunTasks,
}
django.tasks.import_string = lambda path: OURS.get(path) or import_string(path)


class Recorded(unittest.TextTestResult):
    """What became of each test, by its short name."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = {}

    def startTest(self, test):  # noqa: N802 - of unittest
        super().startTest(test)
        self.outcomes[test.id()] = "passed"

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.outcomes[test.id()] = self._exc_info_to_string(err, test)

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self.outcomes[test.id()] = self._exc_info_to_string(err, test)

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcomes[test.id()] = self._exc_info_to_string(err, test)


class Runner(DiscoverRunner):
    """Django's own runner: it sets the test environment and the test database up."""

    def get_resultclass(self):
        return Recorded

    def suite_result(self, suite, result, **kwargs):
        told = {"django": django.get_version(), "python": sys.version, "outcomes": result.outcomes}
        print(json.dumps(told))  # noqa: T201
        return super().suite_result(suite, result, **kwargs)


Runner(verbosity=0, interactive=False).run_tests([*(f"tasks.{module}" for module in MODULES), "own_cases"])
