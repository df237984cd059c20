"""The entry "Jobs" in Django's admin: it opens the dashboard at `admin/tenure/backgroundjobs/`."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import path

from tenure.integrations.django.dashboard import dashboard, role_of
from tenure.integrations.django.models import BackgroundJobs


@admin.register(BackgroundJobs)
class BackgroundJobsAdmin(admin.ModelAdmin):
    """The pages below its address are those of the dashboard, for whom the admin site lets in."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(dashboard, cacheable=True)  # the dashboard says itself what may be cached
        return [
            path("", view, name="tenure_backgroundjobs_changelist"),
            path("<path:path>", view, name="tenure_backgroundjobs_dashboard"),
        ]

    def has_module_permission(self, request: HttpRequest) -> bool:
        return role_of(getattr(request, "user", None)) is not None

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return role_of(getattr(request, "user", None)) is not None

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False
