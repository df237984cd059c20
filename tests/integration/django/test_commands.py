"""`manage.py tenure …` and `manage.py migrate`, as a user runs them."""

import json
import shlex
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.support.django_runs import PROJECT, DjangoProject

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ENQUEUE = """
from django.db import transaction
from shop.jobs import pay, pay_async
from shop.models import Order
with transaction.atomic():
    for queue in {queues}:
        for each in (pay, pay_async):
            each.using(queue=queue).enqueue(order_id=Order.objects.create().pk)
"""
PAID = "from shop.models import Order\nprint(Order.objects.filter(paid=True).count())"


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database, to be copied."""
    folder = tmp_path_factory.mktemp("migrated")
    DjangoProject(f"sqlite:///{folder}/shop.db", folder).manage("migrate", "-v", "0")
    return folder / "shop.db"


@pytest.fixture
def project(migrated: Path, tmp_path: Path) -> DjangoProject:
    """On SQLite."""
    shutil.copy(migrated, tmp_path / "shop.db")
    return DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path)


def test_every_runner_runs_jobs_that_use_the_orm(project: DjangoProject) -> None:
    runners = ("process", "threads", "event_loop", "inline")  # each has a queue of its name
    project.python(ENQUEUE.format(queues=runners))
    for runner in runners:
        report = project.manage("tenure", "work", "--burst", "--runner", runner, runner)
        assert "2 done, 0 retried, 0 dead" in report
    assert project.python(PAID).strip() == "8"


@pytest.mark.parametrize("runner", ["process", "threads", "inline"])
def test_a_transaction_that_a_job_leaves_open_is_rolled_back(project: DjangoProject, runner: str) -> None:
    project.python("from shop.jobs import leave_transaction_open\nleave_transaction_open.enqueue()")
    project.python(ENQUEUE.format(queues=["default"]))
    report = project.manage("tenure", "work", "--burst", "--runner", runner, "--concurrency", "1")
    assert "3 done, 0 retried, 0 dead" in report
    assert "ended inside atomic() on the database 'default'" in report
    assert project.python(PAID).strip() == "2"
    assert project.python("from shop.models import Order\nprint(Order.objects.count())").strip() == "2"


def test_the_commands_of_tenure_are_those_of_manage_py(project: DjangoProject) -> None:
    assert "Usage: manage.py tenure" in project.manage("help", "tenure")
    assert "Run jobs until stopped." in project.manage("tenure", "--help")
    schedules = json.loads(project.manage("tenure", "cron", "list", "--json"))
    assert [each["name"] for each in schedules] == ["mails.welcome"]
    assert "no job 'none'" in project.manage("tenure", "jobs", "show", "none", expect=2)
    assert "Did you mean 'work'" in project.manage("tenure", "wrk", expect=2)


def test_options_of_django_are_not_passed_on(project: DjangoProject) -> None:
    options = ("--settings", "project.settings", f"--pythonpath={PROJECT}")
    assert "no such jobs" in project.manage("tenure", "jobs", "list", *options)
    assert "No module named 'missing'" in project.manage("tenure", "jobs", "list", "--settings=missing", expect=1)


def test_the_command_tenure_works_with_the_settings_module(project: DjangoProject) -> None:
    script = """
import os, subprocess, sys
environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"}
command = [sys.executable, "-m", "tenure", "--app", "tenure.integrations.django.app:app", "work", "--burst"]
print(subprocess.run(command, env=environment, capture_output=True, text=True).stdout)
"""
    project.python(ENQUEUE.format(queues=["default"]))
    assert "2 done" in project.python(script)


@pytest.mark.parametrize(("kind", "line"), [("systemd", "ExecStart="), ("supervisor", "command=")])
def test_the_command_of_a_service_starts_a_worker(project: DjangoProject, kind: str, line: str) -> None:
    project.python(ENQUEUE.format(queues=["default"]))
    file = project.manage("tenure", "service", kind)
    (command,) = [each.removeprefix(line) for each in file.splitlines() if each.startswith(line)]
    subprocess.run([*shlex.split(command), "--burst"], cwd=project.folder, env=project.environment, check=True)
    assert project.python(PAID).strip() == "2"


def test_a_worker_does_not_start_with_settings_that_cannot_be_used(tmp_path: Path) -> None:
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, {"max_retry": 1})
    report = project.manage("tenure", "work", "--burst", expect=1)
    assert "tenure.E001" in report
    assert "did you mean 'max_retries'?" in report


def test_a_jobs_module_that_cannot_be_imported_is_an_error_of_check(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "jobs.py").write_text("import no_such_module")
    variables = {"PROJECT_APPS": "broken", "PYTHONPATH": str(tmp_path)}
    report = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, variables=variables).manage("check", expect=1)
    assert "(tenure.E002) a jobs module cannot be imported: ModuleNotFoundError: No module named" in report


def test_another_alias_holds_the_jobs_and_only_it_gets_tables(tmp_path: Path) -> None:
    variables = {"PROJECT_OTHER_DATABASE": f"sqlite:///{tmp_path}/other.db"}
    project = DjangoProject(f"sqlite:///{tmp_path}/shop.db", tmp_path, {"DATABASE": "other"}, variables)
    project.manage("migrate", "tenure", "-v", "0")
    assert "Run `manage.py migrate tenure --database other`" in project.manage("check", "--database", "other")
    project.manage("migrate", "tenure", "-v", "0", "--database", "other")
    report = project.python("""
from django.db import transaction
from shop.jobs import welcome
from tenure.integrations.django import get_app
with transaction.atomic():
    welcome.enqueue(user="ada")
    print(get_app().jobs.counts().keys())
    with transaction.atomic(using="other"):
        welcome.enqueue(user="bob")
        print(get_app().jobs.counts()["emails"]["ready"])
print(get_app().jobs.counts()["emails"]["ready"])
""")
    assert report.split() == ["dict_keys(['emails'])", "1", "2"]
    tables = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tenure%'"
    assert sqlite3.connect(tmp_path / "shop.db").execute(tables).fetchone() == (0,)
    assert sqlite3.connect(tmp_path / "other.db").execute(tables).fetchone() != (0,)


def test_the_e_mail_backend_locmem_outside_of_tests_does_not_move_the_jobs(project: DjangoProject) -> None:
    report = project.python("""
from django.core.mail import get_connection
from tenure.integrations.django import get_app
get_connection("django.core.mail.backends.locmem.EmailBackend")
print(get_app().settings.url)
""")
    assert report.strip() == project.database
