"""A FastAPI application that makes reports in the background, and shows their progress in the page."""

from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated

from fastapi import Cookie, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from jobs import jobs, make_report

from tenure.definition.job_info import JobInfo
from tenure.integrations.fastapi import jobs_router, tenure_lifespan
from tenure.web import asgi

PAGE = Path(__file__).with_name("page.html").read_text()


def is_own_job(request: Request, job: JobInfo) -> bool:
    """A visitor sees the jobs that this visitor has ordered."""
    return f"visitor:{request.cookies.get('visitor')}" in job.tags


web = FastAPI(lifespan=tenure_lifespan(jobs))
web.include_router(jobs_router(jobs, authorize=is_own_job))
web.mount("/tenure", asgi(jobs))  # who may sign in is in tenure.toml


@web.get("/", response_class=HTMLResponse)
async def page(visitor: Annotated[str | None, Cookie()] = None) -> HTMLResponse:
    answer = HTMLResponse(PAGE)
    if visitor is None:
        answer.set_cookie("visitor", token_urlsafe(16), httponly=True, samesite="lax")
    return answer


@web.post("/reports", status_code=202)
async def order_report(month: int, visitor: Annotated[str | None, Cookie()] = None) -> dict[str, str]:
    if visitor is None:
        raise HTTPException(401, "open the page first")
    job = await make_report.using(tags=[f"visitor:{visitor}"]).aenqueue(month)
    return {"id": job}
