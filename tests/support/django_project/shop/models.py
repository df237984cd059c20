"""Orders."""

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    paid = models.BooleanField(default=False)
