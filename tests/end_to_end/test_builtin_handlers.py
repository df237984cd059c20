"""Built-in handlers from the command line, in every runner."""

from contextlib import suppress
from pathlib import Path
from secrets import randbelow

import pytest

SETTINGS = """
[shell]
allow = ["/bin/sh", "/bin/echo"]

[event]
allow = ["order.paid"]

[command.version]
run = ["tenure", "--version"]
"""
RUNNERS = ["inline", "process", "threads", "event_loop"]


@pytest.fixture
def shop(tenure):
    (tenure.folder / "tenure.toml").write_text(SETTINGS)
    with (tenure.folder / "shop.py").open("a") as code:
        code.write("\n\n@app.on('order.paid')\ndef paid(data):\n    (here / 'paid').write_text(data)\n")
    return tenure


def commands_with(word):
    """The commands of all processes that have this word in them; those of dead processes are empty."""
    commands = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(entry.read_text())
    return [command for command in commands if word in command]


@pytest.mark.parametrize("runner", RUNNERS)
def test_built_in_jobs_run_in_every_runner(shop, runner):
    ids = [
        shop.enqueue("shell", "--payload", '["/bin/echo", "hello"]'),
        shop.enqueue("command", "--payload", '"version"'),
        shop.enqueue("event", "--payload", '{"name": "order.paid", "data": "7"}'),
    ]
    assert shop("work", "--burst", "--runner", runner).returncode == 0
    outputs = [shop.json("jobs", "show", id)["output"] for id in ids]
    assert outputs[0] == "hello\n"
    assert outputs[1].startswith("tenure, version")
    assert (outputs[2], (shop.folder / "paid").read_text()) == ("1", "7")


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_program_past_its_timeout_is_gone_in_every_runner(shop, runner, eventually):
    nap = f"600.{randbelow(10**9):09}"  # no other process sleeps as long
    script = f"sleep {nap} & wait"
    id = shop.enqueue("shell", "--payload", f'["/bin/sh", "-c", "{script}"]', "--timeout", "1")
    shop("work", "--burst", "--runner", runner)
    assert shop.json("jobs", "show", id)["reason"] == "timeout"
    eventually(lambda: not commands_with(nap))


def test_what_is_not_allowed_is_refused_on_the_command_line(shop):
    done = shop("enqueue", "shell", "--payload", '["/bin/ls"]')
    assert (done.returncode, done.stderr) == (
        2,
        "Error: '/bin/ls' may not run: the setting 'shell.allow' does not name it\n",
    )
