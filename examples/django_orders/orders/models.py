"""What customers order."""

from django.db import models


class Order(models.Model):
    """One article in some quantity; the job `invoice` sets the number of its invoice."""

    article = models.CharField(max_length=80)
    quantity = models.PositiveIntegerField()
    ordered_at = models.DateTimeField(auto_now_add=True)
    invoice = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.quantity} × {self.article}"
