"""One page: a form, and the orders."""

from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from orders.jobs import invoice
from orders.models import Order


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ("article", "quantity")


@require_http_methods(["GET", "POST"])
def shop(request: HttpRequest) -> HttpResponse:
    """Store an order and its job in one transaction: both exist after it, or neither."""
    form = OrderForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            order = form.save()
            invoice.enqueue(order_id=order.pk)
        return redirect("shop")
    return render(request, "orders/shop.html", {"form": form, "orders": Order.objects.all()[:50]})


@require_GET
def orders(request: HttpRequest) -> JsonResponse:
    """The orders, the newest first."""
    found = Order.objects.values("id", "article", "quantity", "invoice")[:50]
    return JsonResponse({"orders": list(found)})
