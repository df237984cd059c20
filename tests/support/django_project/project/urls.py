"""The admin with the dashboard in it, and the dashboard at an address of its own."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("ops/", include("tenure.integrations.django.urls")),
    path("admin/", admin.site.urls),
]
