"""The reference page of the command line names what exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tenure.cli.main import cli

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
SECTIONS = {
    heading.partition(" [")[0]: text
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
}


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(cli, "tenure"))


def options(command: click.Command) -> set[str]:
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return {name for each in shown for name in (*each.opts, *each.secondary_opts)}


def described(text: str) -> set[str]:
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(-[\w-]+)", row.split("|")[1])}


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_a_section_with_exactly_its_options(path):
    (section,) = [text for heading, text in SECTIONS.items() if re.match(rf"`{path}( [A-Z]+)?`?$", heading)]
    assert described(section) == options(COMMANDS[path]) - described(SECTIONS["On every command"])


def test_every_command_has_the_common_options_unless_it_uses_no_backend():
    common = described(SECTIONS["On every command"])
    without = {path.split()[1] for path, command in COMMANDS.items() if not common <= options(command)}
    assert without == set(re.findall(r"`(\w+)`", SECTIONS["On every command"].rpartition("Only ")[2]))


def test_the_options_before_the_command_are_described():
    assert described(SECTIONS["Before the command"]) == options(cli) | {"-h", "--help"}
