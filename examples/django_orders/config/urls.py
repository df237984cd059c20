"""The shop at the root, and the admin, in which the dashboard is."""

from django.contrib import admin
from django.contrib.staticfiles.urls import staticfiles_urlpatterns
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("orders.urls")),
    *staticfiles_urlpatterns(),  # with DEBUG, behind any server
]
