"""Tenure in a Starlette application: `tenure_lifespan`, `tenure_of`, `jobs_router`."""

from tenure.integrations.extras import missing_extra

try:
    from tenure.integrations.starlette.lifespan import tenure_lifespan, tenure_of
    from tenure.integrations.starlette.router import jobs_router
except ModuleNotFoundError as error:
    raise missing_extra("starlette", error) from error

__all__ = ["jobs_router", "tenure_lifespan", "tenure_of"]
