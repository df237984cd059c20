"""What a terminal shows, and shell completion."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tenure.cli.main import cli
from tests.support.terminal import run_on_terminal

GREEN, ERASE = "\x1b[32m", "\x1b[2K"
embedded = pytest.mark.parametrize("command_line", ["sqlite"], indirect=True)


def on_a_terminal(command_line, *arguments, **environment):
    """What a command writes when a person looks at both of its outputs."""
    given = {"COLUMNS": "80", "TENURE_APP": command_line.location, **environment}
    return run_on_terminal([sys.executable, "-m", "tenure", *arguments], given)


@embedded
def test_colours_are_for_terminals_and_for_those_who_want_them(command_line):
    assert GREEN in on_a_terminal(command_line, "doctor")
    assert "\x1b" not in on_a_terminal(command_line, "doctor", NO_COLOR="1")
    assert "\x1b" not in command_line("doctor").stdout
    assert GREEN in command_line("doctor", FORCE_COLOR="1").stdout
    assert "\x1b" not in command_line("doctor", FORCE_COLOR="1", NO_COLOR="1").stdout


@embedded
@pytest.mark.parametrize(
    "command",
    [["jobs", "list"], ["dead", "list"], ["queues", "list"], ["health"], ["cron", "list"], ["guards", "list"]],
)
def test_tables_fit_a_terminal_of_80_columns(command_line, command):
    app = command_line.app
    app.define("add", {"a": 1}).named("n" * 60).delay("3h").dispatch()
    app.define("fail", {"text": "x" * 200}).dispatch()
    command_line.work()
    app.guards.pause("q" * 40, "r" * 100)
    shown = on_a_terminal(command_line, *command, NO_COLOR="1").replace("\r\n", "\n").splitlines()
    assert max(len(line) for line in shown if "sqlite://" not in line) <= 80


@embedded
def test_a_table_shows_short_ids_and_ages_and_a_pipe_gets_full_values(command_line):
    id = command_line.app.define("add", {"a": 1}).delay("3h").dispatch()
    shown = on_a_terminal(command_line, "jobs", "list", NO_COLOR="1")
    assert re.search(rf"^{id[:18]}  delayed  default  add  (?:now|.* ago) +in (?:2|3) h", shown, re.MULTILINE)
    header, row = command_line("jobs", "list").stdout.splitlines()
    assert header.split("\t")[:4] == ["id", "state", "queue", "job"]
    assert row.startswith(f"{id}\tdelayed\tdefault\tadd\t")


@embedded
def test_one_job_is_shown_with_a_table_of_its_attempts_and_its_traceback_last(command_line):
    id = command_line.app.define("stumble", {}).dispatch()
    command_line.work()
    shown = on_a_terminal(command_line, "jobs", "show", id[:18], NO_COLOR="1").replace("\r\n", "\n")
    assert re.search(
        r"^# +started .*\n1 .* retried +ValueError: .*\n2 .* dead +ValueError: .*\n\nTraceback", shown, re.M
    )
    assert shown.endswith("ValueError: twice\n")


LINE = re.compile(r"^\d\d:\d\d:\d\d (\w+) +(\S+) +[\d.]+ .?s  (.*)$", re.MULTILINE)


@embedded
def test_a_worker_shows_a_line_for_each_job_on_a_terminal(command_line):
    add = command_line.app.define("add", {"a": 1}).dispatch()
    stumble = command_line.app.define("stumble", {}).dispatch()
    shown = on_a_terminal(command_line, "work", "--burst", "--runner", "inline", NO_COLOR="1", COLUMNS="100")
    lines = LINE.findall(shown.replace("\r\n", "\n").replace(ERASE, ""))
    assert sorted(lines) == [
        ("dead", stumble[:18], "stumble: ValueError: twice"),
        ("done", add[:18], "add"),
        ("retried", stumble[:18], "stumble: attempt 1: ValueError: twice"),
    ]
    assert "CRITICAL" not in shown
    assert re.search(r"^Worker \S+:\d+:\w+; Ctrl-C stops it", shown, re.MULTILINE)


@embedded
def test_the_lines_of_several_worker_processes_are_shown(command_line):
    for number in range(4):
        command_line.app.define("add", {"a": number}).dispatch()
    shown = on_a_terminal(command_line, "work", "--burst", "--processes", "2", "--runner", "inline", NO_COLOR="1")
    assert [line[0] for line in LINE.findall(shown.replace("\r\n", "\n"))] == ["done"] * 4


@embedded
def test_a_quiet_worker_shows_only_what_went_wrong(command_line):
    command_line.app.define("add", {"a": 1}).dispatch()
    assert on_a_terminal(command_line, "work", "--burst", "--runner", "inline", "--quiet") == ""
    command_line.app.define("fail", {}).dispatch()
    shown = on_a_terminal(command_line, "work", "--burst", "--runner", "inline", "-q")
    assert re.fullmatch(r"CRITICAL: job \S+ on queue 'default' is dead .*: ValueError: no luck.*\r\n", shown)


LOUD = """
import logging
import subprocess

from tenure import Tenure

app = Tenure()


@app.job
def talk() -> None:
    print("printed")
    logging.getLogger("loud").info("logged")
    subprocess.run(["echo", "by a program"])
    raise ValueError("no luck")
"""


@embedded
@pytest.mark.parametrize("runner", ["process", "threads", "event_loop", "inline"])
def test_with_v_a_worker_shows_what_handlers_print_and_log(command_line, runner):
    Path("loud.py").write_text(LOUD)
    id = on_a_terminal(command_line, "enqueue", "talk", TENURE_APP="loud:app").strip()
    shown = on_a_terminal(command_line, "-v", "work", "--burst", "--runner", runner, TENURE_APP="loud:app")
    said = re.findall(rf"INFO: {id[:18]} talk: (\w+)", shown)
    assert said[:2] == ["printed", "logged"]
    assert "by a program" in shown


@embedded
def test_with_v_the_json_log_has_what_handlers_print(command_line):
    Path("loud.py").write_text(LOUD)
    id = on_a_terminal(command_line, "enqueue", "talk", TENURE_APP="loud:app").strip()
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "--app", "loud:app", "-v", "--log-format", "json", "work", "--burst"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in map(json.loads, done.stderr.splitlines()) if line["logger"] in ("tenure.output", "loud")]
    assert [(line["message"], line.get("job")) for line in lines] == [
        ("printed", id),
        ("logged", None),
        ("by a program", id),
    ]


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ([], "do", ["doctor"]),
        (["jobs"], "re", ["reschedule", "retry"]),
        (["jobs", "list", "--state"], "d", ["delayed", "done", "dead"]),
        (["doctor"], "--s", ["--strict"]),
        ([], "--deb", ["--debug"]),
    ],
)
def test_commands_options_and_values_are_completed(words, begun, completed):
    found = ShellComplete(cli, {}, "tenure", "_TENURE_COMPLETE").get_completions(words, begun)
    assert [item.value for item in found] == completed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["jbos", "list"], "No such command 'jbos'. Did you mean 'jobs'?"),
        (["Health"], "No such command 'Health'. Did you mean 'health'?"),
        (["nonsense"], "No such command 'nonsense'."),
        (["jobs", "list", "--quue", "x"], "Did you mean '--queue'?"),
    ],
)
def test_a_mistyped_word_is_refused_with_the_nearest_one(words, says):
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == 2
    assert refused.stderr.rstrip().endswith(says)


@embedded
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_needs_is_printed(command_line, shell):
    done = command_line("completion", shell)
    assert (done.exit_code, f"_TENURE_COMPLETE={shell}_complete" in done.stdout) == (0, True)
