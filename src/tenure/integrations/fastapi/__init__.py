"""Tenure in a FastAPI application: `tenure_lifespan`, `TenureDep`, `jobs_router`."""

from tenure.integrations.extras import missing_extra

try:
    from tenure.integrations.fastapi.dependency import TenureDep, tenure_named
    from tenure.integrations.fastapi.router import jobs_router
    from tenure.integrations.starlette.lifespan import tenure_lifespan, tenure_of
except ModuleNotFoundError as error:
    raise missing_extra("fastapi", error) from error

__all__ = ["TenureDep", "jobs_router", "tenure_lifespan", "tenure_named", "tenure_of"]
