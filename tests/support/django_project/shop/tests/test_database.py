"""Which backend a test works on, and what it can see there."""

import os
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings

from shop.jobs import connection_id, connection_id_async, leave_connection_broken, pay, pay_async, welcome
from shop.models import Order
from tenure.integrations.django import get_app
from tenure.testing import AppUnderTest, FakeClock

IN_MEMORY = bool(os.environ.get("PROJECT_IN_MEMORY"))


class DatabaseTests(TestCase):
    def test_the_url_is_that_of_the_test_database(self):
        get_app().jobs.counts()
        if IN_MEMORY:
            self.assertEqual(get_app().settings.url, "memory://")
        else:
            self.assertIn(str(settings.DATABASES["default"]["NAME"]), get_app().settings.url)
            self.assertIn("test", get_app().settings.url)

    def test_jobs_run_in_the_transaction_of_the_test(self):
        orders = [Order.objects.create(), Order.objects.create()]
        with AppUnderTest(get_app()) as tenure:
            pay.enqueue(order_id=orders[0].pk)
            pay_async.enqueue(order_id=orders[1].pk)
            self.assertEqual(len(tenure.enqueued(pay)), 1)
            tenure.run_due()
        self.assertEqual(Order.objects.filter(paid=True).count(), 2)

    def test_a_job_uses_the_connection_of_the_test_and_leaves_it_open(self):
        Order.objects.create()
        own = id(connection.connection)
        with AppUnderTest(get_app()) as tenure:
            handles = [connection_id.enqueue(), connection_id_async.enqueue()]
            tenure.run_due()
            self.assertEqual([handle.result() for handle in handles], [own, own])
        self.assertEqual(Order.objects.count(), 1)

    def test_schedules_tick_in_tests(self):
        midnight = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        with AppUnderTest(get_app(), midnight) as tenure:
            tenure.advance("25h")
            self.assertEqual([run.handler for run in tenure.runs()], ["mails.welcome"])

    def test_named_backends_and_stores_are_replaced(self):
        with override_settings(TENURE={"url": "redis://real.invalid", "backends": {"fast": "redis://real2.invalid"}}):
            get_app().enqueue(welcome.build(user="ada"), backend="fast")
            welcome.enqueue(user="bob")
            get_app().enqueue(welcome.build(user="eve"), backend="redis://real3.invalid")
            self.assertEqual((get_app().settings.url, len(list(get_app().jobs.find()))), ("memory://", 3))
        get_app().jobs.counts()
        self.assertNotIn("redis", get_app().settings.url)


class WithoutDatabaseTests(SimpleTestCase):
    def test_the_real_database_is_not_used(self):
        if get_app().settings.url != "memory://" and not IN_MEMORY:
            self.skipTest("this run has a test database")
        welcome.enqueue(user="ada")
        self.assertEqual(get_app().settings.url, "memory://")


class WorkerTests(TransactionTestCase):
    def test_a_worker_runs_jobs_on_the_test_database(self):
        orders = [Order.objects.create(), Order.objects.create()]
        pay.enqueue(order_id=orders[0].pk)
        pay_async.enqueue(order_id=orders[1].pk)
        handle = welcome.enqueue(user="ada")
        if IN_MEMORY:
            self.skipTest("SQLite lets no second thread into a database in memory")
        get_app().worker("default", "emails", burst=True).run()
        self.assertEqual(Order.objects.filter(paid=True).count(), 2)
        self.assertEqual(handle.result(), "welcome ada")

    def test_a_broken_connection_is_replaced_before_the_next_job(self):
        if IN_MEMORY:
            self.skipTest("a database in memory ends with its connection")
        order = Order.objects.create()
        with AppUnderTest(get_app()) as tenure:
            leave_connection_broken.enqueue()
            pay.enqueue(order_id=order.pk)
            tenure.run_due()
        self.assertTrue(Order.objects.get().paid)
