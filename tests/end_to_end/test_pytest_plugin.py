"""The pytest plugin in the project of a user: how it finds the app, what its fixture does, what it costs others."""

import subprocess
import sys

import pytest
from _pytest.assertion.rewrite import AssertionRewriter

import tenure

pytest_plugins = ["pytester"]

SHOP = """
    from tenure import Tenure

    app = Tenure("sqlite:///real.db")


    @app.job(queue="emails", max_retries=1)
    def send(user_id: int) -> None:
        if user_id == 13:
            raise ValueError("no such user")


    @app.job
    async def fetch() -> None:
        pass
"""
TEST = """
    from shop import send


    def test_sends(tenure):
        send.enqueue(user_id=42)
        assert len(tenure.enqueued(send, user_id=42)) == 1
        assert tenure.run_due() == {"acked": 1}


    def test_begins_with_empty_queues(tenure):
        assert tenure.enqueued() == []
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with an app on a file and a test; `run` runs pytest there in a process of its own."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(shop=SHOP, test_shop=TEST)
    return pytester


def run(project, *options):
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", "--strict-config", *options)


@pytest.mark.parametrize(
    "files",
    [
        {"tox.ini": "[pytest]\ntenure_app = shop:app\n"},
        {"pyproject.toml": '[tool.pytest.ini_options]\ntenure_app = "shop:app"\n'},
        {"pyproject.toml": '[tool.pytest.ini_options]\n[tool.tenure]\napp = "shop:app"\n'},
        {"conftest.py": "import pytest\nimport shop\n\n@pytest.fixture\ndef tenure_app():\n    return shop.app\n"},
    ],
    ids=["ini", "pyproject", "setting", "fixture"],
)
def test_the_fixture_finds_the_app_and_leaves_the_real_database_alone(project, files):
    for name, text in files.items():
        (project.path / name).write_text(text, "utf-8")
    run(project).assert_outcomes(passed=2)
    assert not list(project.path.glob("real.db*"))


def test_a_project_without_an_app_is_told_both_ways_to_name_it(project):
    result = run(project)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(['*tenure_app = "shop.jobs:app"*', "*def tenure_app():*"])


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("shop", "*'shop' is of type module, not a Tenure app*"),
        ("nowhere:app", "*'nowhere:app' cannot be imported: ModuleNotFoundError: No module named 'nowhere'*"),
        ("shop:nothing", "*'shop:nothing' cannot be imported: AttributeError:*"),
    ],
)
def test_a_wrong_location_is_explained(project, location, text):
    result = run(project, "-o", f"tenure_app={location}")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines([text])


def test_a_failing_job_fails_the_test_and_shows_the_line_of_the_handler(project):
    project.makepyfile(
        test_shop="""
        from shop import send


        def test_sends(tenure):
            send.enqueue(user_id=13)
            tenure.run_due()
        """
    )
    result = run(project, "-o", "tenure_app=shop:app")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*JobFailed: job * ('send') failed: ValueError: no such user", '*raise ValueError("no such user")']
    )
    result.stdout.no_fnmatch_line("*app_under_test.py*")


def test_modules_of_the_settings_are_imported_with_the_app(project):
    project.makepyfile(
        more="""
        from shop import app


        @app.job
        def count() -> None: ...
        """,
        test_shop="""
        def test_counts(tenure):
            tenure.app.define("count").dispatch()
            assert tenure.run_due() == {"acked": 1}
        """,
    )
    (project.path / "tenure.toml").write_text('app = "shop:app"\nmodules = ["more"]\n', "utf-8")
    run(project).assert_outcomes(passed=1)


def test_async_tests_and_parallel_tests_work(project):
    project.makepyfile(
        test_shop="""
        import asyncio

        import pytest
        from shop import fetch, send


        def test_async_code(tenure):
            async def main():
                fetch.enqueue()
                assert tenure.run_due() == {"acked": 1}

            asyncio.run(main())


        @pytest.mark.parametrize("user_id", range(8))
        def test_sends(tenure, user_id):
            send.enqueue(user_id=user_id)
            assert tenure.run_due() == {"acked": 1}
        """
    )
    run(project, "-o", "tenure_app=shop:app", "-n", "2").assert_outcomes(passed=9)


def test_a_project_may_have_a_fixture_of_the_same_name_or_disable_the_plugin(project):
    project.makepyfile(
        test_shop="""
        import pytest


        @pytest.fixture
        def tenure():
            return "mine"


        def test_own(tenure):
            assert tenure == "mine"
        """
    )
    run(project).assert_outcomes(passed=1)
    run(project, "-p", "no:tenure").assert_outcomes(passed=1)


def test_the_plugin_imports_nothing_of_tenure_for_tests_that_do_not_use_it(project):
    project.makepyfile(
        test_shop="""
        import sys


        def test_modules():
            loaded = {name for name in sys.modules if name.split(".")[0] == "tenure"}
            assert loaded == {"tenure", "tenure.testing", "tenure.testing.pytest_plugin"}
            assert "msgspec" not in sys.modules
        """
    )
    run(project, "-p", "no:xdist").assert_outcomes(passed=1)


def test_pytest_does_not_warn_if_the_package_was_imported_before_it():
    """Pytest warns of every package with a plugin that was imported too early, unless its text contains a word."""
    assert AssertionRewriter.is_rewrite_disabled(tenure.__doc__)


def test_the_fixture_works_without_pytest_in_unittest(project):
    project.makepyfile(
        test_unit="""
        import unittest

        from shop import app, send
        from tenure.testing import AppUnderTest, FakeClock, assert_enqueued, run_due


        class Sending(unittest.TestCase):
            def test_override(self):
                self.enterContext(app.override("memory://", clock=FakeClock()))
                send.enqueue(user_id=1)
                assert_enqueued(app, send, user_id=1)
                self.assertEqual(run_due(app), {"acked": 1})

            def test_faults(self):
                tenure = self.enterContext(AppUnderTest(app))
                send.enqueue(user_id=1)
                tenure.duplicate(send)
                tenure.run_due()
                self.assertEqual(len(tenure.runs(send)), 2)
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unittest", "test_unit"],
        cwd=project.path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(project.path.glob("real.db*"))
