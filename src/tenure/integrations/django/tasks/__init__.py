"""The backend for Django's tasks: `"BACKEND": "tenure.integrations.django.tasks.TenureBackend"` in the setting TASKS.

It serves `django.tasks`, and the package `django-tasks` for Django 5.2. Nothing of both is imported before the name
`TenureBackend` is used, because Django and other programs import the module `tasks` of each installed app.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.integrations.django.tasks.backend import TenureBackend
else:

    def __getattr__(name):
        if name != "TenureBackend":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tenure.integrations.django.tasks.backend import TenureBackend

        return TenureBackend


__all__ = ["TenureBackend"]
