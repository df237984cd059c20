"""What a terminal shows, and shell completion."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from tenure.cli.main import cli

GREEN, ERASE = "\x1b[32m", "\x1b[2K"
embedded = pytest.mark.parametrize("command_line", ["sqlite"], indirect=True)


def on_a_terminal(command_line, *arguments, **environment):
    """What a command writes when a person looks at both of its outputs."""
    outside, inside = os.openpty()
    given = {**os.environ, "TERM": "xterm", "TENURE_APP": command_line.location, **environment}
    process = subprocess.Popen([sys.executable, "-m", "tenure", *arguments], env=given, stdout=inside, stderr=inside)
    os.close(inside)
    written = b""
    while chunk := _read(outside):
        written += chunk
    os.close(outside)
    process.wait(60)
    return written.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@embedded
def test_colours_are_for_terminals_and_for_those_who_want_them(command_line):
    assert GREEN in on_a_terminal(command_line, "doctor")
    assert "\x1b" not in on_a_terminal(command_line, "doctor", NO_COLOR="1")
    assert "\x1b" not in command_line("doctor").stdout
    assert GREEN in command_line("doctor", FORCE_COLOR="1").stdout
    assert "\x1b" not in command_line("doctor", FORCE_COLOR="1", NO_COLOR="1").stdout


@embedded
def test_a_bar_tells_on_a_terminal_how_far_long_work_is(command_line):
    command_line.app.define("add", {"a": 1}).dispatch()
    command_line.work()
    assert f"{ERASE}deleted {'█' * 30} 1 of 1" in on_a_terminal(command_line, "purge", "--state", "done", "--force")
    assert command_line("purge", "--state", "done", "--force").stderr == ""


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


@embedded
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_needs_is_printed(command_line, shell):
    done = command_line("completion", shell)
    assert (done.exit_code, f"_TENURE_COMPLETE={shell}_complete" in done.stdout) == (0, True)
