"""The configuration of this Django app."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
