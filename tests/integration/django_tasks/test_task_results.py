"""Tasks of a real Django project on each backend: enqueued in one process, run by a worker, read in another process."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.django_suite import newer_django
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing

SITE = Path(__file__).with_name("site")
RUNS = ("sqlite", "sqlite, Django 6", "postgresql", "redis")
LEVELS = ("high", "above", "usual", "below", "low")
HOUR = 3600.0
_found: dict[str, dict[str, Any]] = {}  # by run: the scenes of one run serve all tests of a process


@pytest.fixture(params=RUNS)
def scenes(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What drive.py prints, and the lines of the receivers of signals."""
    backend = request.param.partition(",")[0]
    if request.param not in _found:
        environment = {"SITE_FOLDER": str(tmp_path), "SITE_DATABASE": str(tmp_path)}
        if request.param != backend:
            environment |= django_6()
        if backend == "postgresql":
            environment["SITE_DATABASE"] = request.getfixturevalue("postgres_url")
        if backend == "redis":
            environment["SITE_BACKEND"] = request.getfixturevalue("redis_url")
        _found[request.param] = {
            **(in_three_processes(environment) if backend == "sqlite" else in_one_process(environment)),
            "backend": backend,
            "signals": [json.loads(line) for line in (tmp_path / "signals").read_text().splitlines()],
            "order": (tmp_path / "order").read_text().split(),
            "imported": (tmp_path / "imported").exists(),
        }
    return _found[request.param]


def django_6() -> dict[str, str]:
    try:
        python, path = newer_django()
    except Missing as missing:
        raise absent(missing) from missing
    return {"SITE_PYTHON": str(python), "SITE_TASKS": "django.tasks", "PYTHONPATH": f"{SITE}{os.pathsep}{path}"}


def in_one_process(environment: dict[str, str]) -> dict[str, Any]:
    return program(environment | {"SITE_WORKER": "inline"}, "drive.py", "enqueue")


def in_three_processes(environment: dict[str, str]) -> dict[str, Any]:
    """The worker is `manage.py tenure work`, which runs tasks in processes of its own."""
    told = program(environment, "drive.py", "enqueue")
    site(environment, "manage.py", "tenure", "work", "--burst", "--concurrency", "1")
    site(environment, "manage.py", "tenure", "work", "--burst", "--url", "elsewhere")
    return told | program(environment | {"SITE_IDS": json.dumps(told)}, "drive.py", "read")


def program(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(site(environment, *arguments).splitlines()[-1])
    return printed


def site(environment: dict[str, str], *arguments: str, codes: tuple[int, ...] = (0, 1)) -> str:
    command = [environment.get("SITE_PYTHON", sys.executable), "-W", "error", *arguments]
    done = subprocess.run(
        command, cwd=SITE, env={**os.environ, **environment}, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode in codes, done.stderr  # 1: tasks failed while the worker ran
    assert done.stdout, done.stderr
    return done.stdout


# Four programs, one after the other; the first run fetches Django 6.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_result_has_the_arguments_and_the_return_value_as_json_knows_them(scenes: dict[str, Any]) -> None:
    results = scenes["results"]

    assert [results["add"][name] for name in ("args", "kwargs", "value")] == [[1], {"b": 2}, 3]
    arguments = [[[1, 2.5]], {"text": "ä\u0000", "more": {"deep": [None, True]}}]
    assert [results["echo"]["args"], results["echo"]["kwargs"]] == arguments
    assert results["echo"]["value"] == arguments
    assert results["nothing"]["value"] is None
    assert results["greet"]["value"] == "hi Ann"  # without what the task printed


def test_a_result_has_status_times_and_one_worker_for_each_attempt(scenes: dict[str, Any]) -> None:
    before, after = scenes["enqueued"]["add"], scenes["results"]["add"]

    assert (before["status"], after["status"]) == ("READY", "SUCCESSFUL")
    assert before["enqueued_at"] == after["enqueued_at"] <= after["started_at"] <= after["finished_at"]
    assert after["last_attempted_at"] == after["started_at"]
    assert (before["attempts"], after["attempts"]) == (0, 1)
    retried = scenes["results"]["third_time"]
    assert retried["attempts"] == len(retried["worker_ids"]) == 3
    assert all(retried["worker_ids"])
    assert retried["enqueued_at"] <= retried["started_at"] < retried["last_attempted_at"] <= retried["finished_at"]


def test_a_result_has_an_error_with_its_class_for_each_failed_attempt(scenes: dict[str, Any]) -> None:
    results = scenes["results"]
    classes = {name: [error[:2] for error in result["errors"]] for name, result in results.items()}

    mine = ["shop.tasks.OutOfStock", "OutOfStock"]
    assert (classes["broken"], classes["broken_async"]) == ([mine], [mine])
    assert (classes["third_time"], results["third_time"]["status"]) == ([mine, mine], "SUCCESSFUL")
    assert classes["ends_program"] == [["builtins.SystemExit", "SystemExit"]]
    assert classes["too_slow"] == [["tenure.errors.DeadlineExceeded", "DeadlineExceeded"]]
    assert classes["returns_object"] == [["builtins.TypeError", "TypeError"]]
    assert classes["cancelled"] == [["tenure.errors.Cancelled", "Cancelled"]]
    failed = {name for name, result in results.items() if result["status"] == "FAILED"}
    expected = {"broken", "broken_async", "ends_program", "too_slow", "returns_object", "cancelled"}
    assert failed - {"killer"} == expected
    assert results["broken"]["errors"][0][2].endswith("OutOfStock: no lamps\n")
    assert results["broken"]["value"] == {"ValueError": "Task failed"}


def test_a_task_that_kills_its_process_fails_with_an_error_for_each_attempt(scenes: dict[str, Any]) -> None:
    if scenes["backend"] != "sqlite":  # the worker runs tasks in its own process there
        assert "killer" not in scenes["ids"]
        return
    killer = scenes["results"]["killer"]

    assert (killer["status"], killer["attempts"]) == ("FAILED", 4)
    assert [error[:2] for error in killer["errors"]] == [["tenure.errors.JobFailed", "JobFailed"]] * 4
    finished = [line for line in scenes["signals"] if line["event"] == "finished" and line["task"] == killer["name"]]
    assert [line["status"] for line in finished] == ["FAILED"]


def test_a_task_with_context_sees_its_own_result_with_the_earlier_attempts(scenes: dict[str, Any]) -> None:
    assert scenes["results"]["third_time"]["value"] == {
        "id": scenes["ids"]["third_time"],
        "attempt": 3,
        "errors": ["shop.tasks.OutOfStock"] * 2,
        "workers": 3,
        "status": "RUNNING",
    }


def test_djangos_priority_is_returned_and_sets_the_order(scenes: dict[str, Any]) -> None:
    results = scenes["results"]

    assert [results[name]["priority"] for name in LEVELS] == [100, 1, 0, -20, -100]
    assert (results["letter"]["priority"], results["letter"]["queue"]) == (-55, "emails")
    assert scenes["order"] == list(LEVELS)


def test_a_deferred_task_waits_and_an_overdue_one_runs_at_once(scenes: dict[str, Any]) -> None:
    results, enqueued = scenes["results"], scenes["enqueued"]

    assert [results[name]["status"] for name in ("at", "in_an_hour", "overdue")] == ["READY", "READY", "SUCCESSFUL"]
    assert results["in_an_hour"]["run_after"] == enqueued["in_an_hour"]["run_after"]
    assert enqueued["in_an_hour"]["run_after"] == pytest.approx(enqueued["in_an_hour"]["enqueued_at"] + HOUR, abs=5)
    assert results["at"]["run_after"] == enqueued["at"]["run_after"]
    assert results["at"]["value"] == {"ValueError": "Task has not finished yet"}


def test_a_unique_task_is_enqueued_once_while_one_with_its_arguments_waits(scenes: dict[str, Any]) -> None:
    ids = scenes["ids"]

    assert ids["unique"] == ids["twin"] != ids["other"]
    assert scenes["results"]["twin"] == scenes["results"]["unique"]
    assert scenes["results"]["other"]["value"] == 16


def test_the_result_of_a_cancelled_task_says_if_its_arguments_are_erased(scenes: dict[str, Any]) -> None:
    cancelled = scenes["results"]["cancelled"]

    assert cancelled["erased"] is (scenes["backend"] == "redis")
    assert cancelled["args"] == ([] if cancelled["erased"] else [4])
    assert not any(result["erased"] for name, result in scenes["results"].items() if name != "cancelled")


def test_a_return_value_that_is_too_long_to_be_stored_is_an_error_for_its_reader(scenes: dict[str, Any]) -> None:
    much = scenes["results"]["returns_much"]

    assert much["status"] == "SUCCESSFUL"
    assert "70002 characters" in much["value"]["ResultCut"]


def test_what_cannot_be_a_task_or_its_arguments_is_refused_with_the_reason(scenes: dict[str, Any]) -> None:
    refused = scenes["refused"]

    assert refused["object"] == "TypeError: Unsupported type: <class 'object'>"
    assert refused["nan"].startswith("InvalidPayload: the payload cannot be carried: $.args[0] is nan")
    for name in ("retries", "timeout", "unique", "queue"):
        assert refused[name].startswith("InvalidTask"), refused[name]


def test_only_the_tasks_of_an_alias_have_results_there(scenes: dict[str, Any]) -> None:
    refused = scenes["refused"]

    assert refused["unknown id"].startswith("TaskResultDoesNotExist: no job '123'")
    assert refused["impossible id"] == "TaskResultDoesNotExist: no task has the id 'a\\x00b'"
    assert refused["unwritable id"] == "TaskResultDoesNotExist: no task has the id '\\ud800'"
    assert "job of 'shop.count', which is no task" in refused["plain job"]
    assert refused["second's"].endswith("is a task of the backend 'second', not of 'default'")
    assert scenes["results"]["of_second"]["backend"] == ["second", "second"]


def test_an_alias_can_have_another_backend_which_a_worker_serves_by_its_name(scenes: dict[str, Any]) -> None:
    elsewhere = scenes["results"]["elsewhere"]

    assert elsewhere["backend"] == ["elsewhere", "elsewhere"]
    if scenes["backend"] == "sqlite":  # the others have a worker for their own backend only
        assert (elsewhere["status"], elsewhere["value"]) == ("SUCCESSFUL", 21)
        assert scenes["committed elsewhere"]["value"] == 31  # it went through the outbox of the transaction
    else:
        assert (elsewhere["status"], elsewhere["args"]) == ("READY", [20])


def test_a_task_of_an_alias_with_another_backend_enqueues_tasks_of_the_default_alias_where_the_project_has_them(
    scenes: dict[str, Any],
) -> None:
    if scenes["backend"] == "sqlite":  # the others have a worker for their own backend only
        assert scenes["results"]["nested"]["status"] == "SUCCESSFUL"
        assert scenes["inner"] is None


def test_a_signed_message_cannot_make_a_worker_import_a_module_or_call_what_is_no_task(scenes: dict[str, Any]) -> None:
    assert scenes["states"] == ["delayed", "delayed"]  # as jobs whose handler is not deployed yet
    assert not scenes["imported"]


def test_signals_are_sent_once_for_each_step_and_a_receiver_that_fails_changes_nothing(scenes: dict[str, Any]) -> None:
    ids = scenes["ids"]
    sent = Counter((line["id"], line["event"], line["status"]) for line in scenes["signals"])

    once = {"enqueued": "READY", "started": "RUNNING", "finished": "SUCCESSFUL"}
    for name in ("add", "greet", "letter", "of_second"):
        assert {event: sent[ids[name], event, status] for event, status in once.items()} == dict.fromkeys(once, 1)
    for name in ("broken", "broken_async", "ends_program", "too_slow", "returns_object"):
        assert sent[ids[name], "finished", "FAILED"] == 1, name
    assert sent[ids["third_time"], "started", "RUNNING"] == 3
    assert [key for key in sent if key[:2] == (ids["third_time"], "finished")] == [
        (ids["third_time"], "finished", "SUCCESSFUL")
    ]
    assert sent[ids["unique"], "enqueued", "READY"] == 1


def test_the_process_that_runs_a_task_sends_its_signals(scenes: dict[str, Any]) -> None:
    of_add = {line["event"]: line["pid"] for line in scenes["signals"] if line["id"] == scenes["ids"]["add"]}

    assert of_add["started"] == of_add["finished"]
    assert (of_add["enqueued"] == of_add["started"]) is (scenes["backend"] != "sqlite")


def test_a_task_of_a_transaction_is_enqueued_by_the_commit(scenes: dict[str, Any]) -> None:
    found = scenes["transaction"]

    assert "TaskResultDoesNotExist" in found["inside"]
    assert "after the commit" in found["inside"]
    assert "TaskResultDoesNotExist" in found["rolled back"]
    if scenes["backend"] == "redis":  # it is in the outbox, and the relay sends it
        assert "TaskResultDoesNotExist" in found["committed"]
    else:
        assert found["committed"] is None


@pytest.mark.parametrize("more", [{}, {"SITE_BACKEND": "redis://localhost:1"}], ids=["database", "redis"])
def test_tasks_run_in_the_tests_of_a_project_which_reach_no_real_backend(more: dict[str, str], tmp_path: Path) -> None:
    environment = {"SITE_FOLDER": str(tmp_path), "SITE_DATABASE": str(tmp_path), **more}

    site(environment, "manage.py", "test", "shop", codes=(0,))
