"""The jobs of the shop."""

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from shop.models import Order
from tenure.integrations.django import job, schedule


@job
def pay(order_id: int) -> int:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        order.paid = True
        order.save()
    return order_id


@job
async def pay_async(order_id: int) -> int:
    return await Order.objects.filter(pk=order_id).aupdate(paid=True)


@job
def leave_connection_broken() -> None:
    connection.ensure_connection()
    connection.connection.close()
    connection.errors_occurred = True


@job
def leave_transaction_open() -> None:
    transaction.atomic().__enter__()
    Order.objects.create()


@job
def connection_id() -> int:
    connection.ensure_connection()
    return id(connection.connection)


@job
async def connection_id_async() -> int:
    return await sync_to_async(connection_id.original)()


@job(queue="emails", name="mails.welcome")
def welcome(user: str) -> str:
    return f"welcome {user}"


schedule(welcome, user="ada").daily_at("02:00")
