"""Tenure in a Quart application: `QuartTenure`, `jobs_blueprint`, `mount_dashboard`."""

from tenure.integrations.extras import missing_extra

try:
    from tenure.integrations.quart.blueprint import jobs_blueprint
    from tenure.integrations.quart.dashboard import mount_dashboard
    from tenure.integrations.quart.extension import QuartTenure
except ModuleNotFoundError as error:
    raise missing_extra("quart", error) from error

__all__ = ["QuartTenure", "jobs_blueprint", "mount_dashboard"]
