"""The jobs of the site; `manage.py tenure work` finds this module by its name."""

from datetime import timedelta

from django.utils import timezone

from orders.models import Order
from tenure.integrations.django import job, schedule


@job(tags=["invoice"])
def invoice(order_id: int) -> str:
    """Give an order its invoice; a second run changes nothing."""
    order = Order.objects.get(pk=order_id)
    if not order.invoice:
        order.invoice = f"INV-{order.pk:05}"
        order.save(update_fields=["invoice"])
    return order.invoice


@job
async def forget_old_orders(days: int = 365) -> int:
    """Delete orders after some time; returns how many."""
    deleted, _ = await Order.objects.filter(ordered_at__lt=timezone.now() - timedelta(days=days)).adelete()
    return deleted


schedule(forget_old_orders).daily_at("03:30")
