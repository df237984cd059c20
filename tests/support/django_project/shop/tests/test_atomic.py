"""Enqueues inside and outside of `atomic()`."""

import os
from unittest import skipIf
from unittest.mock import patch

from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError, connection, transaction
from django.test import TransactionTestCase

from shop.jobs import pay, pay_async, welcome
from shop.models import Order
from tenure.integrations.django import get_app

IN_MEMORY = bool(os.environ.get("PROJECT_IN_MEMORY"))


def ready():
    return sum(states["ready"] for states in get_app().jobs.counts().values())


@skipIf(IN_MEMORY, "a backend in memory takes no part in transactions")
class AtomicTests(TransactionTestCase):
    def test_a_job_exists_after_the_commit_and_not_before(self):
        with transaction.atomic():
            handle = pay.enqueue(order_id=1)
            self.assertEqual(ready(), 0)
        self.assertEqual(ready(), 1)
        self.assertEqual(handle.info().handler, "shop.pay")

    def test_a_rollback_undoes_the_job(self):
        with self.assertRaises(KeyError), transaction.atomic():
            Order.objects.create()
            pay.enqueue(order_id=1)
            raise KeyError
        self.assertEqual((ready(), Order.objects.count()), (0, 0))

    def test_a_savepoint_undoes_only_its_own_job(self):
        with transaction.atomic():
            pay.enqueue(order_id=1)
            with self.assertRaises(KeyError), transaction.atomic():
                pay.enqueue(order_id=2)
                raise KeyError
        self.assertEqual([get_app().jobs.get(job.id).payload for job in get_app().jobs.find()], [{"order_id": 1}])

    def test_a_transaction_that_must_be_rolled_back_takes_no_job(self):
        with transaction.atomic():
            transaction.set_rollback(True)
            for enqueue in (lambda: pay.enqueue(order_id=1), lambda: get_app().enqueue_many([pay.build(order_id=1)])):
                with self.assertRaises(transaction.TransactionManagementError):
                    enqueue()

    def test_errors_of_the_driver_are_those_of_django(self):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE tenure_job RENAME TO elsewhere")
        try:
            with self.assertRaises(DatabaseError), transaction.atomic():
                pay.enqueue(order_id=1)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO tenure_job")

    def test_with_autocommit_off_the_first_job_joins_too(self):
        connection.close()
        self.enterContext(patch.dict(connection.settings_dict, AUTOCOMMIT=False))
        pay.enqueue(order_id=1)
        transaction.rollback()
        connection.close()
        self.assertEqual(ready(), 0)

    def test_many_jobs_join_too(self):
        app = get_app()
        with transaction.atomic():
            handles = app.enqueue_many(pay.build(order_id=number) for number in range(1500))
            app.enqueue_each([welcome.build(user="ada"), welcome.build(user="bob")])
            app.define("mails.welcome", {"user": "eve"}).dispatch()
            self.assertEqual(ready(), 0)
        self.assertEqual((len(handles), ready()), (1500, 1503))

    def test_a_unique_job_is_stored_once(self):
        unique = pay.using(unique="order-1")
        with transaction.atomic():
            self.assertEqual(unique.enqueue(order_id=1), unique.enqueue(order_id=1))
        self.assertEqual(ready(), 1)

    def test_without_a_transaction_a_job_exists_at_once(self):
        pay.enqueue(order_id=1)
        self.assertEqual(ready(), 1)

    def test_async_code_joins_the_transaction_that_called_it(self):
        async def enqueue():
            await pay.aenqueue(order_id=1)
            await get_app().aio.enqueue_many([pay_async.build(order_id=2), pay_async.build(order_id=3)])

        with self.assertRaises(KeyError), transaction.atomic():
            async_to_sync(enqueue)()
            raise KeyError
        self.assertEqual(ready(), 0)
        with transaction.atomic():
            async_to_sync(enqueue)()
            self.assertEqual(ready(), 0)
        self.assertEqual(ready(), 3)

    async def test_async_code_without_a_transaction_enqueues_at_once(self):
        handle = await pay.aenqueue(order_id=1)
        self.assertEqual((await sync_to_async(handle.info)()).handler, "shop.pay")

    def test_every_test_begins_without_jobs(self):
        self.assertEqual(list(get_app().jobs.find()), [])
