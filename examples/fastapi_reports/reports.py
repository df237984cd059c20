"""A FastAPI application that makes reports in the background.

Start the web server and a worker, in this folder:

    uvicorn reports:web
    tenure --app reports:jobs work
"""

from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from pydantic import BaseModel

from tenure import Context, Tenure
from tenure.errors import JobFailed, JobNotFound, ResultTimeout

jobs = Tenure("sqlite:///reports.db")


class Report(BaseModel):
    month: int
    lines: int


@jobs.job(queue="reports", max_retries=3, give_up_on=ValueError, tags=["report"])
def make_report(ctx: Context, month: int) -> Report:
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    for day in range(1, 29):
        ctx.progress(day, 28)
    return Report(month=month, lines=28)


@asynccontextmanager
async def lifespan(_web: FastAPI) -> Any:
    yield
    jobs.close()


web = FastAPI(lifespan=lifespan)


@web.post("/reports", status_code=202)
async def order_report(month: int) -> dict[str, str]:
    handle = await make_report.aenqueue(month)
    return {"id": handle}


@web.get("/reports/{id}")
async def read_report(id: str, response: Response) -> Report | dict[str, str]:
    """The report, once it is made; until then, the state of its job."""
    try:
        report: Report = await jobs.handle(id, Report).aresult(timeout=5)
    except JobNotFound:
        raise HTTPException(404, "this report was never ordered") from None
    except JobFailed as failed:
        raise HTTPException(422, f"{failed.error_type}: {failed.error}") from failed
    except ResultTimeout:
        response.status_code = 202
        return {"state": (await jobs.aio.get(id)).state}
    return report


@web.get("/reports")
async def list_reports() -> list[dict[str, Any]]:
    """The newest reports, as values that FastAPI can send."""
    return [info.as_dict() async for info in jobs.aio.find(tags=["report"], limit=20)]


@web.delete("/reports/{id}")
async def cancel_report(id: str) -> dict[str, str]:
    return {"result": await jobs.aio.cancel(id)}
