"""Tenure in a Litestar application: `TenurePlugin`, `jobs_router`."""

from tenure.integrations.extras import missing_extra

try:
    from tenure.integrations.litestar.plugin import TenurePlugin
    from tenure.integrations.litestar.router import jobs_router
except ModuleNotFoundError as error:
    raise missing_extra("litestar", error) from error

__all__ = ["TenurePlugin", "jobs_router"]
