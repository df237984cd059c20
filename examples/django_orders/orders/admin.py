"""The orders in the admin, beside the jobs."""

from django.contrib import admin

from orders.models import Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ("article", "quantity", "ordered_at", "invoice")
