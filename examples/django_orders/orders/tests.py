"""`manage.py test`: jobs run in the transaction of each test."""

from django.test import TestCase

from orders.jobs import invoice
from orders.models import Order
from tenure.integrations.django import get_app
from tenure.testing import AppUnderTest


class ShopTests(TestCase):
    def test_an_order_is_invoiced(self):
        with AppUnderTest(get_app()) as tenure:
            self.client.post("/", {"article": "tea", "quantity": 2})
            self.assertEqual(len(tenure.enqueued(invoice)), 1)
            tenure.run_due()
        self.assertTrue(Order.objects.get().invoice.startswith("INV-"))

    def test_an_order_that_is_not_valid_enqueues_nothing(self):
        with AppUnderTest(get_app()) as tenure:
            self.client.post("/", {"article": "tea", "quantity": -1})
            self.assertEqual(tenure.enqueued(), [])
