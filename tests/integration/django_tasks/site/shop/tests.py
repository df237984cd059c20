"""Tests as a project writes them, which `manage.py test` runs."""

import os
import unittest

from django.test import TestCase, TransactionTestCase

from shop import tasks
from tenure.integrations.django import get_app
from tenure.testing import run_due


class RunsTask:
    def test_a_task_runs(self):
        result = tasks.add.enqueue(1, b=2)

        run_due(get_app())
        result.refresh()

        assert (result.status, result.return_value) == ("SUCCESSFUL", 3)


@unittest.skipUnless("SITE_BACKEND" in os.environ, "no worker sees what a TestCase writes into a file")
class TaskInTestCase(RunsTask, TestCase):
    pass


class TaskInTransactionTestCase(RunsTask, TransactionTestCase):
    pass
