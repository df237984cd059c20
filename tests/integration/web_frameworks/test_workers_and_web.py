"""A worker beside a web application: it starts nothing of it, and an import opens nothing."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import Tenure
from tests.support.waiting import WAIT_SECONDS

JOBS = """
from tenure import Tenure

jobs = Tenure("sqlite:///jobs.db")


@jobs.job
def opened_at_import() -> list:
    import web

    return [web.opened, list(web.state)]
"""
WEB = """
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from jobs import jobs
from tenure import web as dashboard
from tenure.integrations.fastapi import jobs_router, tenure_lifespan

state = []


@asynccontextmanager
async def lifespan(site):
    Path("lifespan_ran").touch()
    state.append("started")
    yield


web = FastAPI(lifespan=tenure_lifespan(jobs, lifespan))
web.include_router(jobs_router(jobs, authorize=lambda request, job: True))
web.mount("/tenure", dashboard.asgi(jobs))
opened = bool(jobs._backends.place.opened)
"""
ENQUEUE = """
from pathlib import Path

import web
from jobs import opened_at_import

assert not Path("jobs.db").exists()
print(opened_at_import.enqueue())
"""
FRAMEWORKS = ["starlette", "fastapi", "litestar", "quart", "flask"]


@pytest.mark.slow
def test_a_worker_never_starts_the_lifespan_even_if_it_imports_the_web_application(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "web.py").write_text(WEB)
    run = subprocess.run(
        [sys.executable, "-c", ENQUEUE],
        cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
    )  # fmt: skip
    worked = subprocess.run(
        [Path(sys.executable).parent / "tenure", "--app", "web:jobs", "work", "--burst"],
        cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert worked.returncode == 0, worked.stderr
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app:
        assert app.handle(run.stdout.strip()).result(0) == [False, []]
    assert not (tmp_path / "lifespan_ran").exists()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_integration_without_its_framework_names_the_extra(framework, monkeypatch):
    package = f"tenure.integrations.{framework}"
    for name in [name for name in sys.modules if f"{name}.".startswith((f"{package}.", f"{framework}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'tenure\[{framework}\]'"):
        importlib.import_module(package)


def test_tenure_imports_no_web_framework():
    code = f"import json, sys, tenure, tenure.app; print(json.dumps([m for m in {FRAMEWORKS} if m in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == []
