"""The test cases of the Django project, which Django's own runner runs, on each kind of database."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.django_runs import DjangoProject, mysql
from tests.support.django_suite import newer_django
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ALL = ("shop",)
ABOUT_DATABASES = ("shop.tests.test_atomic", "shop.tests.test_database", "shop.tests.test_schema")
WITHOUT_DASHBOARD = (*ABOUT_DATABASES, "shop.tests.test_definitions")


def run(project: DjangoProject, cases: tuple[str, ...] = ALL, skipped: int = 1, *options: str) -> str:
    """Run the cases; one is for runs without a test database, and is skipped by the others."""
    report = project.manage("test", *cases, "--noinput", "-v", "2", *options)
    tail = report[report.rindex("\nRan ") :]
    assert "\nOK" in tail, report
    assert report.count(" ... skipped ") == skipped, report
    return report


def test_the_integration_works_on_sqlite_and_leaves_the_real_database_alone(tmp_path: Path) -> None:
    run(DjangoProject(f"sqlite:///{tmp_path}/real.db", tmp_path))
    assert not (tmp_path / "real.db").exists()


def test_the_integration_works_on_sqlite_in_memory_which_django_uses_by_default(tmp_path: Path) -> None:
    variables = {"PROJECT_IN_MEMORY": "1"}
    run(DjangoProject(f"sqlite:///{tmp_path}/real.db", tmp_path, variables=variables), ABOUT_DATABASES, skipped=15)
    assert not (tmp_path / "real.db").exists()


def test_the_integration_works_on_django_6_and_without_the_packages_of_the_dashboard(tmp_path: Path) -> None:
    try:
        python, path = newer_django()
    except Missing as missing:
        raise absent(missing) from missing
    variables = {"PYTHONPATH": path}
    project = DjangoProject(f"sqlite:///{tmp_path}/real.db", tmp_path, variables=variables, interpreter=str(python))
    run(project, WITHOUT_DASHBOARD)
    report = project.manage("test", "shop.tests.test_dashboard", "--noinput", expect=1)
    assert "pip install 'tenure[dashboard]'" in report


def test_the_integration_works_on_postgresql_and_leaves_the_real_database_alone(
    postgres_url: str, tmp_path: Path
) -> None:
    import psycopg

    run(DjangoProject(postgres_url, tmp_path))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tenure%'").fetchall() == []


def test_the_integration_works_on_mariadb(mariadb_url: str, tmp_path: Path) -> None:
    run(DjangoProject(mysql(mariadb_url), tmp_path), ABOUT_DATABASES)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_tests_in_parallel_processes_have_databases_of_their_own(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/real.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    cases = ("shop.tests.test_atomic", "shop.tests.test_database", "shop.tests.test_dashboard")
    for _ in range(2):  # the second run must not meet what the processes of the first one have left
        report = run(DjangoProject(url, tmp_path), cases, 1, "--parallel", "2")
        assert "Cloning test database" in report


def test_nothing_is_written_to_the_real_database_by_tests_without_a_database(tmp_path: Path) -> None:
    file = tmp_path / "real.db"
    sqlite3.connect(file).close()
    project = DjangoProject(f"sqlite:///{file}", tmp_path)
    report = project.manage("test", "shop.tests.test_database.WithoutDatabaseTests")
    assert "\nOK\n" in report
    assert file.stat().st_size == 0


def test_a_commit_wakes_the_workers_that_wait_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    import psycopg

    project = DjangoProject(postgres_url, tmp_path)
    project.manage("migrate", "tenure", "-v", "0")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("LISTEN tenure")
        project.python(
            "from django.db import transaction\nfrom shop.jobs import welcome\n"
            "with transaction.atomic():\n    welcome.enqueue(user='ada')"
        )
        assert [each.payload for each in connection.notifies(timeout=60, stop_after=1)] == ["emails"]
