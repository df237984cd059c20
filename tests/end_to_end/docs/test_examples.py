"""Every example of the documentation runs, and prints what its page says.

A page is one session in an empty folder. The comment on the line before a block may change what is done with it:
`<!-- file: app.py -->` writes the block into that file, `<!-- run -->` runs the `$` lines of a console block,
`<!-- terminal -->` runs them on a terminal of 100 columns without colours,
`<!-- output -->` says that this text is what the block before it prints (`…` stands for anything),
and `<!-- skip: reason -->` leaves a block alone.
"""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

import click
import pytest

from tenure import Tenure
from tenure.cli.main import cli
from tests.support.docs_pages import PAGES, Block, blocks
from tests.support.terminal import run_on_terminal

pytestmark = pytest.mark.timeout(300)  # a page is a session of many commands
BIN = Path(sys.executable).parent

BLOCKS = {page: blocks(page) for page in PAGES}
COMMANDS = [block for found in BLOCKS.values() for block in found if block.language == "console"]


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # a page runs pytest itself
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [page for page, found in BLOCKS.items() if found], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path) -> None:
    printed = ""
    with session() as module:
        for block in BLOCKS[page]:
            if block.mark == "output":
                assert matches(printed, block.text), f"{block.place} should read:\n{printed}"
            elif not block.mark.startswith("skip"):
                printed = run(block, module)


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.place)
def test_the_commands_on_a_page_exist(block: Block) -> None:
    for line in dollar_lines(block):
        words = re.split(r" [|&>]", line)[0].split()
        if words[0] == "tenure":
            assert unknown_words(words[1:]) == [], f"{block.place}: {line}"


def unknown_words(words: list[str]) -> list[str]:
    """The commands and options that the command line does not have."""
    command: click.Command = cli
    options: dict[str, bool] = {"--help": False}
    unknown = []
    remaining = iter(words)
    for word in remaining:
        options |= {name: takes_value(each) for each in command.params for name in (*each.opts, *each.secondary_opts)}
        if word.startswith("-"):
            unknown += [] if word in options else [word]
            if options.get(word):
                next(remaining)
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return [*unknown, word]
            command = found
    return unknown


def takes_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count)


@contextmanager
def session() -> Iterator[ModuleType]:
    """A module for the blocks of one page, known by name, as type hints and dataclasses need it."""
    module = ModuleType("docs_page")
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]
        for value in vars(module).values():
            if isinstance(value, Tenure):
                value.close()


def run(block: Block, module: ModuleType) -> str:
    """What the block prints."""
    if block.file is not None:
        Path(block.file).write_text(block.text, "utf-8")
    elif block.mark in ("run", "terminal"):
        run_commands(block)
    elif block.language == "python":
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")  # tracebacks name the page's line
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, vars(module))
        return printed.getvalue()
    return ""


def run_commands(block: Block) -> None:
    """Run the `$` lines; the other lines are what they print."""
    expected = re.sub(r"^\$ .*\n", "", block.text, flags=re.MULTILINE)
    script = "\n".join(dollar_lines(block))
    if block.mark == "terminal":
        shown = run_on_terminal(["bash", "-c", script], {"NO_COLOR": "1", "COLUMNS": "100"})
        printed = re.sub(r"\x1b\[2K(?:\r(?!\n))?", "", shown).replace("\r\n", "\n")
        assert matches(printed, expected), f"{block.place} should read:\n{printed}"
        return
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=200, check=False)
    shown = f"{block.place} should read:\n{done.stdout}\n--- stderr:\n{done.stderr}"
    assert matches(done.stdout, expected), shown


def dollar_lines(block: Block) -> list[str]:
    return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]


def matches(printed: str, expected: str) -> bool:
    """Whether the lines are the same, however wide their columns are drawn."""
    pattern = re.escape(with_narrow_columns(expected)).replace("…", ".*")
    return re.fullmatch(pattern, with_narrow_columns(printed)) is not None


def with_narrow_columns(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
