"""Our own cases for the tasks of Django 6, which djangos_suite.py runs beside Django's."""

from datetime import UTC, datetime, timedelta

from django.core.checks import run_checks
from django.tasks import TaskResultStatus, task, task_backends
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.test import SimpleTestCase, override_settings
from django.utils import timezone

from tenure.integrations.django import get_app
from tenure.testing import run_due


@override_settings(TASKS={"default": {"BACKEND": "tenure.integrations.django.tasks.TenureBackend"}})
class OwnCases(SimpleTestCase):
    """They need the tasks of this module made for our backend, so each makes its own."""

    def setUp(self):
        get_app().jobs.cancel(all=True)
        get_app().jobs.delete(all=True)

    def test_options_of_the_decorator_and_of_using_reach_the_job(self):
        retried = task(max_retries=2, timeout="30s", unique=True)(fails_twice)

        result = retried.using(priority=-55, key="tenant-7", at_most=3, backoff="none").enqueue()
        twin = retried.enqueue()

        assert twin.id == result.id
        run_due(get_app())
        run_due(get_app())
        result.refresh()
        assert result.status == TaskResultStatus.SUCCESSFUL
        assert (result.return_value, result.attempts, result.task.priority) == (3, 3, -55)
        assert [error.exception_class for error in result.errors] == [ZeroDivisionError] * 2

    def test_options_are_checked_when_the_task_is_made(self):
        for options in ({"max_retries": -1}, {"timeout": "soon"}, {"backoff": 7}, {"at_most": 0}, {"unique": 7}):
            with self.subTest(options), self.assertRaises(InvalidTask):  # noqa: PT027 - pytest is not installed there
                task(**options)(adds)

    def test_times_have_no_zone_where_the_project_uses_none(self):
        result = task(adds).using(run_after=datetime.now() - timedelta(hours=1)).enqueue(1, 2)
        later = task(adds).using(run_after=timedelta(hours=1)).enqueue(1, 2)
        run_due(get_app())
        result.refresh()
        later.refresh()

        assert (result.status, later.status) == ("SUCCESSFUL", "READY")
        times = [result.enqueued_at, result.started_at, result.finished_at, result.task.run_after, later.task.run_after]
        assert [time.tzinfo for time in times] == [None] * 5
        assert abs(datetime.now() - result.finished_at) < timedelta(minutes=10)

    def test_times_without_a_zone_are_those_of_the_setting_time_zone_whatever_zone_is_active(self):
        with timezone.override("Asia/Tokyo"):
            due = datetime.now() + timedelta(hours=1)
            result = task(adds).using(run_after=due).enqueue(1, 2)
            result.refresh()

        assert abs(datetime.now() - result.enqueued_at) < timedelta(minutes=10)
        assert get_app().jobs.get(result.id).due_at == due.astimezone(UTC)

    def test_a_result_outlives_its_arguments_with_the_priority_of_its_level(self):
        result = task(adds).using(priority=-33, run_after=datetime.now()).enqueue(1, 2)
        run_due(get_app())
        get_app().jobs.forget([result.id])
        found = result.task.get_result(result.id)

        assert (found.status, found.arguments_erased, found.args, found.kwargs) == ("SUCCESSFUL", True, [], {})
        assert (found.task.priority, found.task.run_after) == (-21, None)
        assert found.enqueued_at <= found.started_at <= found.finished_at
        get_app().jobs.delete([result.id])
        with self.assertRaises(TaskResultDoesNotExist):  # noqa: PT027 - pytest is not installed there
            result.refresh()

    def test_an_alias_with_faults_is_reported_by_the_system_checks(self):
        wrong = {"BACKEND": "tenure.integrations.django.tasks.TenureBackend", "QUEUES": ["no queue"]}
        broker = {**wrong, "QUEUES": [], "OPTIONS": {"backend": "redis://:secret@localhost"}}
        with override_settings(TASKS={"default": {**wrong, "OPTIONS": {"backends": "x"}}, "broker": broker}):
            found = {message.id: str(message) for message in run_checks() if message.id[:9] in CHECKS}

        assert sorted(found) == ["tenure.E102", "tenure.E103", "tenure.E104"]
        assert "Did you mean 'backend'?" in found["tenure.E102"]
        assert "TENURE['backends'] does not have" in found["tenure.E104"]
        assert "secret" not in found["tenure.E104"]

    def test_the_backend_supports_everything_that_django_asks_about(self):
        backend = task_backends["default"]

        flags = [name for name in dir(backend) if name.startswith("supports_")]
        assert len(flags) == 4
        assert all(getattr(backend, flag) for flag in flags)


CHECKS = ("tenure.E1", "tenure.W1")
_calls = []


def fails_twice():
    _calls.append(1)
    if len(_calls) < 3:
        raise ZeroDivisionError
    return len(_calls)


def adds(a, b):
    return a + b
