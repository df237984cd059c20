"""The command handler runs declared commands with arguments of the declared shape; the exit code decides."""

import sys
from functools import partial
from pathlib import Path

import click
import pytest

from tenure.errors import InvalidHandler, Refused
from tenure.permissions import Argument

APPS = Path(__file__).parents[2] / "support" / "apps"
ANY = [{"pattern": r"\w*", "repeat": True, "optional": True}]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(APPS))
    monkeypatch.setenv("PYTHONPATH", str(APPS))


@pytest.fixture
def run_command(make_app, outcome_of):
    """Runs one command line against one declared command, and gives the job's record."""

    def run(payload, name, **declared):
        return outcome_of(make_app(command={name: declared}), "command", payload)

    return run


def test_a_click_command_runs_and_what_it_prints_is_the_result(run_command):
    assert run_command("report --month=06", "report", run="office:report").output == "report for 6\n"


def test_the_command_line_may_be_a_list(run_command):
    assert run_command(["report", "--month", "6"], "report", run="office:report").output == "report for 6\n"


def test_a_click_group_runs_its_commands(run_command):
    assert run_command("office report --month 7", "office", run="office:office").output == "report for 7\n"


def test_a_click_commands_exit_code_decides(run_command):
    record = run_command("office close", "office", run="office:office")

    assert (record.reason, "exit code 4" in record.failures[-1].message) == ("retries_exhausted", True)


def test_a_click_error_fails_with_its_message(run_command):
    record = run_command("report --month 1 --fail", "report", run="office:report")

    assert (record.reason, "on fire" in record.failures[-1].message) == ("retries_exhausted", True)


@pytest.mark.parametrize(
    "line", ["report", "report --month=x", "report --month=1 --drop-tables", "report --month=1 extra"]
)
def test_arguments_that_a_click_command_does_not_declare_are_never_retried(run_command, line):
    assert run_command(line, "report", run="office:report").reason == "invalid_payload"


def test_help_is_an_answer(run_command):
    assert "Usage: report" in run_command("report --help", "report", run="office:report").output


def test_a_function_is_given_the_arguments_that_were_declared(run_command):
    record = run_command("main 0 x", "main", run="office:main", arguments=ANY)

    assert (record.state, record.output) == ("done", "main 0 x\n")


def test_a_functions_number_is_its_exit_code(run_command):
    record = run_command("main 3", "main", run="office:main", arguments=ANY)

    assert (record.reason, "exit code 3" in record.failures[-1].message) == ("retries_exhausted", True)


def test_a_function_without_parameters_is_called_so_and_its_value_kept(run_command):
    assert run_command("bare", "bare", run="office:bare").output == '{"rows":3}'


@pytest.mark.parametrize(("line", "state"), [("leave", "done"), ("leave too late", "dead")])
def test_leaving_by_sys_exit_counts(run_command, line, state):
    assert run_command(line, "leave", run="office:leave", arguments=ANY).state == state


@pytest.mark.parametrize("name", ["main", "bare"])
def test_arguments_that_nobody_declared_are_refused(run_command, name):
    assert run_command(f"{name} 1", name, run=f"office:{name}").reason == "forbidden"


def test_a_module_runs_in_a_python_of_its_own(run_command):
    record = run_command("tool 0", "tool", run=["-m", "office"], arguments=[{"integer": [0, 9]}])

    assert (record.state, record.output) == ("done", "0\n")


def test_the_exit_code_of_a_module_decides(run_command):
    record = run_command("tool 5", "tool", run=["-m", "office"], arguments=[{"integer": [0, 9]}])

    assert "exit code 5" in record.failures[-1].message


def test_an_installed_script_runs_in_a_python_of_its_own(run_command):
    record = run_command("version", "version", run=["tenure", "--version"])

    assert record.output.startswith("tenure, version ")


def test_a_script_that_is_not_installed_fails_and_can_be_retried(run_command):
    record = run_command("x", "x", run=["no-such-script"])

    assert (record.reason, "not installed" in record.failures[-1].message) == ("retries_exhausted", True)


def test_fixed_arguments_come_before_those_of_the_message(run_command):
    record = run_command("tool 7", "tool", run=["-m", "office", "0"], arguments=[{"integer": [0, 9]}])

    assert record.output == "0 7\n"


@pytest.mark.parametrize("line", ["tool 10", "tool -m", "tool", "tool 1 2", "tool $(id)"])
def test_declared_arguments_are_checked_where_the_job_is_enqueued(make_app, line):
    app = make_app(command={"tool": {"run": ["-m", "office"], "arguments": [{"integer": [0, 9]}]}})

    with pytest.raises(Refused):
        app.define("command", line).dispatch()


def test_a_module_without_declared_arguments_takes_none(make_app):
    with pytest.raises(Refused, match="takes no arguments"):
        make_app(command={"tool": {"run": ["-m", "office"]}}).define("command", "tool 1").dispatch()


def test_without_a_declaration_nothing_runs_and_the_message_says_what_to_do(make_app):
    with pytest.raises(Refused, match=r"app\.command\('report'"):
        make_app().define("command", "report").dispatch()


@pytest.mark.parametrize("line", ["os:system id", "office:main", "tools", "-m office", "tool\n"])
def test_a_name_in_a_message_never_names_code(make_app, line):
    app = make_app(command={"tools2": {"run": ["-m", "office"]}})

    with pytest.raises(Refused, match="not declared"):
        app.define("command", line).dispatch()


@pytest.mark.parametrize("payload", ["", "   ", [], "report 'open"])
def test_a_payload_without_a_command_is_refused(make_app, payload):
    with pytest.raises(Refused):
        make_app(command={"report": {"run": "office:report"}}).define("command", payload).dispatch()


def test_commands_may_be_declared_in_code(make_app, outcome_of):
    app = make_app()
    app.command("sum", lambda argv: str(sum(map(int, argv))), arguments=[Argument(integer=(0, 9), repeat=True)])

    assert outcome_of(app, "command", "sum 1 2 3").output == "6"


def test_a_name_is_declared_once(make_app):
    app = make_app(command={"report": {"run": "office:report"}})

    with pytest.raises(InvalidHandler, match="already declared"):
        app.command("report", print)


def test_a_declaration_that_cannot_be_called_fails_and_says_so(run_command):
    assert "not callable" in run_command("value", "value", run="office:value").failures[-1].message


def test_a_command_past_its_timeout_is_killed(make_app, outcome_of):
    app = make_app(command={"tool": {"run": ["-m", "office", "sleep"]}})

    assert outcome_of(app, "command", "tool", timeout=1.0).reason == "timeout"


def test_a_command_line_is_never_run_by_a_shell(make_app, outcome_of, tmp_path):
    app = make_app(command={"echo": {"run": ["-m", "office", "0"], "arguments": [{"pattern": ".*", "repeat": True}]}})

    record = outcome_of(app, "command", ["echo", f"; touch {tmp_path}/x", "`id`"])

    assert record.output == f"0 ; touch {tmp_path}/x `id`\n"
    assert sys.stdout is not None
    assert not (tmp_path / "x").exists()


async def main_later(argv):
    """Never awaited."""


async def generate_later(argv):
    yield argv


def generate(argv):
    yield argv


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (main_later, "coroutine function"),
        (partial(main_later), "coroutine function"),
        (click.command()(main_later), "coroutine function"),
        (generate, "generator function"),
        (generate_later, "generator function"),
        (5, "needs a callable"),
    ],
)
def test_a_command_whose_call_would_run_nothing_is_refused_where_it_is_added(make_app, target, what):
    app = make_app()

    with pytest.raises(InvalidHandler, match=f"command 'report' .*{what}"):
        app.command("report", target)
    with pytest.raises(Refused, match="none is declared"):
        app.define("command", "report").dispatch()


def test_an_async_command_of_the_settings_fails(run_command):
    record = run_command("report", "report", run="office:main_later")

    assert (record.state, "coroutine function" in record.failures[-1].message) == ("dead", True)


@pytest.mark.parametrize("target", [lambda: main_later([]), click.command("x")(lambda: main_later([]))])
def test_a_command_that_returns_a_coroutine_fails(make_app, outcome_of, target):
    app = make_app()
    app.command("report", target)

    record = outcome_of(app, "command", "report")

    assert (record.state, record.failures[-1].type) == ("dead", "InvalidHandler")
    assert "command 'report' returned an object of type 'coroutine'" in record.failures[-1].message
