"""The Tenure app of a FastAPI application as a dependency of path functions."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from fastapi.requests import HTTPConnection

from tenure.app.tenure import Tenure
from tenure.integrations.starlette.lifespan import tenure_of


def tenure_named(key: str) -> Callable[[HTTPConnection], Tenure]:
    """The dependency for a Tenure app with a key of its own: `Annotated[Tenure, Depends(tenure_named("reports"))]`."""

    def dependency(connection: HTTPConnection) -> Tenure:
        return tenure_of(connection, key)

    return dependency


TenureDep = Annotated[Tenure, Depends(tenure_named("tenure"))]
"""The type of a parameter that gets the app of `tenure_lifespan(app)`: `async def order(tenure: TenureDep)`."""
