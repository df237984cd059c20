"""Tasks on Beanstalkd, which forgets a message when it ends and cannot find it before; a store is beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

SITE = Path(__file__).with_name("site")


@pytest.mark.slow
def test_on_a_broker_with_a_store_a_task_has_a_complete_result_after_its_first_attempt(
    beanstalk_url: str, tmp_path: Path
) -> None:
    url = f"{beanstalk_url}?prefix=tasks-{token_hex(4)}."
    environment = {"SITE_FOLDER": str(tmp_path), "SITE_DATABASE": str(tmp_path), "SITE_BACKEND": url}
    environment["SITE_STORE"] = f"sqlite:///{tmp_path}/store.db"

    done = subprocess.run(
        [sys.executable, "-W", "error", "broker.py"],
        cwd=SITE, env={**os.environ, **environment}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip

    assert done.stdout, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    found = told["results"]
    assert "it may not have run yet" in told["waiting"]
    assert [found["add"][name] for name in ("status", "args", "kwargs", "value")] == ["SUCCESSFUL", [1], {"b": 2}, 3]
    assert (found["third_time"]["attempts"], len(found["third_time"]["errors"])) == (3, 2)
    assert (found["broken"]["status"], found["broken"]["errors"][0][0]) == ("FAILED", "shop.tasks.OutOfStock")
    assert "tenure.W101" in told["checks"]
