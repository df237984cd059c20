"""The addresses of the shop."""

from django.urls import path

from orders.views import orders, shop

urlpatterns = [
    path("", shop, name="shop"),
    path("orders.json", orders, name="orders"),
]
