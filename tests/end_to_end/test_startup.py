"""Before any command runs: help, version, and finding the app."""

import json
import subprocess
import sys

import pytest

import tenure as package

HEAVY = ("tenure.app", "tenure.backends", "msgspec", "rich", "sqlite3")


def test_help_names_every_command_and_imports_none_of_them(tenure):
    probe = (
        "import sys, json\nfrom tenure.cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.rpartition("\n[")
    assert all(f"\n  {command} " in text for command in ("work", "enqueue", "health", "jobs", "dead", "db", "key"))
    assert not {*HEAVY, "tenure.cli.commands.work", "tenure.cli.commands.dead"} & {*json.loads(f"[{modules}")}


def test_every_public_name_can_be_imported_and_is_listed(tenure):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert {*package.__all__} <= {*dir(package)}


def test_a_name_that_does_not_exist_is_refused(tenure):
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = package.nonsense


def test_version_prints_the_version(tenure):
    assert tenure("--version").stdout == f"tenure, version {package.__version__}\n"


@pytest.mark.parametrize("command", [["work"], ["enqueue", "add"]])
def test_a_command_that_needs_handlers_asks_where_the_app_is(tenure, command):
    done = tenure.without("TENURE_APP")(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'Error: say where your app is: --app module:attr, TENURE_APP, or app = "module:attr" in tenure.toml\n'
    )


@pytest.mark.parametrize("command", [["health"], ["dead", "list"], ["workers"], ["db", "migrate"]])
def test_a_command_that_needs_no_handlers_works_without_an_app(tenure, command):
    tenure("db", "migrate")
    assert tenure.without("TENURE_APP")(*command).returncode == 0


def test_the_app_is_taken_from_the_option_before_the_environment(tenure):
    (tenure.folder / "other.py").write_text("from tenure import Tenure\nqueue = Tenure('sync://')\n")
    assert tenure.json("--app", "other:queue", "health")["backend"] == "sync://"


def test_the_app_is_taken_from_the_settings_file(tenure):
    (tenure.folder / "tenure.toml").write_text('app = "shop:app"\n')
    assert tenure.without("TENURE_APP")("enqueue", "add", "--payload", '{"a": 1}').returncode == 0


def test_the_modules_of_the_settings_are_imported(tenure):
    (tenure.folder / "more.py").write_text("from shop import app\n@app.job\ndef later() -> None: ...\n")
    assert tenure("enqueue", "later", TENURE_MODULES="more").returncode == 0


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("shop", "write module:attr"),
        ("nowhere:app", "module 'nowhere' cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("broken:app", "module 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("shop:nothing", "module 'shop' has no attribute 'nothing'"),
        ("shop:add", "'shop:add' is of type JobFunction, not a Tenure app"),
    ],
)
def test_an_app_that_cannot_be_had_is_refused_in_one_line(tenure, location, says):
    (tenure.folder / "broken.py").write_text("1 / 0\n")
    done = tenure("--app", location, "work")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr


def test_a_module_of_the_settings_that_cannot_be_imported_is_named(tenure):
    done = tenure("work", "--burst", TENURE_MODULES="missing")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: module 'missing' cannot be imported: ModuleNotFoundError")


def test_debug_shows_the_traceback_and_keeps_the_exit_code(tenure):
    done = tenure("--debug", "enqueue", "nonsense")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "UnknownHandler" in done.stderr


def test_an_unknown_setting_in_the_file_is_refused_with_its_name(tenure):
    (tenure.folder / "tenure.toml").write_text("retentoin = 3\n")
    done = tenure.without("TENURE_APP")("health")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "tenure.toml: unknown setting `retentoin`" in done.stderr


@pytest.mark.parametrize("command", [["health"], ["work", "--burst"]])
def test_an_unknown_variable_is_reported_once_with_the_nearest_setting(tenure, command):
    tenure("enqueue", "add", "--payload", '{"a": 1, "b": 2}')
    done = tenure(*command, TENURE_RETENTOIN="3")
    assert done.returncode == 0
    assert done.stderr == (
        "the environment variable TENURE_RETENTOIN is no setting and has no effect; did you mean TENURE_RETENTION?\n"
    )


def test_an_unexpected_error_is_one_line_and_exit_code_3(tenure):
    (tenure.folder / "odd.py").write_text(
        "from tenure import Tenure\napp = Tenure()\ndef open_nothing():\n    raise KeyError('gone')\n"
        "app.open_backend = open_nothing\n"
    )
    tenure("db", "migrate")
    done = tenure("--app", "odd:app", "health")
    assert (done.returncode, done.stderr) == (3, "Error: KeyError: 'gone'; --debug shows the traceback\n")
