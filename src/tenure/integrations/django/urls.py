"""The dashboard at an address of your choice: `path("jobs/", include("tenure.integrations.django.urls"))`."""

from django.urls import path

from tenure.integrations.django.dashboard import dashboard

app_name = "tenure"
urlpatterns = [
    path("", dashboard, name="dashboard"),
    path("<path:path>", dashboard),
]
