"""Completion in the real shells: bash and zsh in a terminal, with the key Tab, and fish by its own command."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers import shells
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
APP = """
print("an app may print what it likes")

from tenure import Tenure

app = Tenure()


@app.job(queue="invoices")
def bill(number: int) -> None: ...


@app.job(name="shop:tidy")
def tidy() -> None: ...


app.schedule(bill.build(number=1)).named("nightly-bill").daily_at("02:00")
"""
SETTINGS = """
app = "shop:app"

[lanes.fast]
queues = ["emails"]

[lanes.slow]
queues = ["reports"]
"""
LINES = {
    "tenure comp": "tenure completion",
    "tenure jobs list --state canc": "tenure jobs list --state cancelled",
    "tenure work inv": "tenure work invoices",
    "tenure work --lane sl": "tenure work --lane slow",
    "tenure jobs list --queue=em": "tenure jobs list --queue=emails",
    "tenure enqueue shop:t": "tenure enqueue shop:tidy",
    "tenure cron pause ni": "tenure cron pause nightly-bill",
}
SHOW = {  # Ctrl-O prints the line between marks
    "bash": """bind -x '"\\C-o": printf "<<%s>>" "$READLINE_LINE"'""",
    "zsh": """show() { print -rn -- "<<$BUFFER>>" }; zle -N show; bindkey '^O' show""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    (folder / "shop.py").write_text(APP)
    (folder / "tenure.toml").write_text(SETTINGS)
    return folder


def environment_of(folder, program):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "HOME": str(folder), "TERM": "vt100", "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
    return {**kept, **own, **shells.environment(program)}


def shell(name):
    try:
        return shells.installed_shell(name)
    except Missing as missing:
        raise absent(missing) from missing


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, program, arguments, folder):
        self.seen = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(program, [str(program), *arguments], environment_of(folder, program))

    def send(self, text):
        os.write(self.descriptor, text.encode())

    def read_until(self, pattern):
        end = time.monotonic() + WAIT_SECONDS
        while (found := re.search(pattern, self.seen)) is None:
            left = end - time.monotonic()
            assert select.select([self.descriptor], [], [], max(left, 0))[0], self.seen
            self.seen += os.read(self.descriptor, 4096)
        self.seen = self.seen[found.end() :]
        return found[1].decode()

    def close(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)


def zsh_setup(program):
    """An unpacked zsh does not know where its modules and functions are."""
    if shells.UNPACKED not in program.parents:
        return "autoload -Uz compinit; compinit -u -D"
    (modules,) = shells.UNPACKED.glob("usr/lib/*/zsh/*/zsh")
    functions = shells.UNPACKED / "usr/share/zsh/functions"
    paths = f"module_path=({modules.parent}); fpath=({functions}/**/*(/))"
    return f"{paths}; autoload -Uz compinit; compinit -u -D"


@pytest.fixture(scope="module")
def bash(folder):
    terminal = Terminal(Path(shutil.which("bash")), ["--norc", "--noprofile", "-i"], folder)
    terminal.send(f"{SHOW['bash']}; eval \"$(tenure completion bash)\"; echo rea''dy:\n")
    terminal.read_until(rb"(ready):")
    yield terminal
    terminal.close()


@pytest.fixture(scope="module")
def zsh(folder):
    program = shell("zsh")
    terminal = Terminal(program, ["-f", "-i"], folder)
    terminal.send(f"{zsh_setup(program)}; {SHOW['zsh']}; eval \"$(tenure completion zsh)\"; echo rea''dy:\n")
    terminal.read_until(rb"(ready):")
    yield terminal
    terminal.close()


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("line", LINES)
def test_tab_completes_a_line(name, line, request):
    terminal = request.getfixturevalue(name)
    terminal.send(f"{line}\t\x0f")
    assert terminal.read_until(rb"<<(.*?)>>").rstrip() == LINES[line]
    terminal.send("\x15")  # Ctrl-U clears the line


@pytest.mark.parametrize("line", LINES)
def test_fish_completes_a_line(line, folder):
    program = shell("fish")
    script = f"tenure completion fish | source; complete -C '{line}'"
    done = subprocess.run(
        [program, "--no-config", "-c", script],
        cwd=folder, env=environment_of(folder, program), capture_output=True, text=True, timeout=WAIT_SECONDS,
    )  # fmt: skip
    last = LINES[line].split()[-1]
    assert [each.split("\t")[0] for each in done.stdout.splitlines()] == [last], done.stderr


def ask(folder, words, code="from tenure.cli.main import main; main()", **environment):
    """What bash gets for these words, of which the last is being typed."""
    asked = {"_TENURE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    program = Path(sys.executable)
    done = subprocess.run(
        [program, "-c", code],
        cwd=folder, env={**environment_of(folder, program), **asked, **environment},
        capture_output=True, text=True, timeout=WAIT_SECONDS,
    )  # fmt: skip
    return done.stdout, done.stderr


def test_all_queues_that_the_settings_and_the_app_name_are_offered_without_those_given_already(folder):
    printed, errors = ask(folder, "tenure work emails ")
    assert printed.split() == ["plain,default", "plain,invoices", "plain,priority", "plain,reports"]
    assert errors == ""


def test_reasons_of_dead_letters_are_offered(folder):
    assert ask(folder, "tenure dead list --reason crash_") == ("plain,crash_loop\n", "")


def test_files_are_left_to_the_shell(folder):
    assert ask(folder, "tenure work --log-file a") == ("file,a\n", "")


def test_a_broken_app_leaves_the_names_of_the_settings_and_prints_no_error(folder):
    assert ask(folder, "tenure work --lane ", TENURE_APP="nowhere:app") == ("plain,fast\nplain,slow\n", "")


def test_broken_settings_complete_nothing_and_print_no_error(folder):
    assert ask(folder, "tenure work --lane ", TENURE_LEASE="never") == ("", "")


def test_an_app_that_hangs_does_not_hang_the_shell(folder):
    (folder / "slow.py").write_text("import time\nfrom tenure import Tenure\ntime.sleep(600)\napp = Tenure()\n")
    soon = "from tenure.cli import completion; completion._MOST_SECONDS = 0.2; from tenure.cli.main import main; main()"
    assert ask(folder, "tenure work --lane ", soon, TENURE_APP="slow:app") == ("", "")


def test_commands_are_completed_without_importing_the_app(folder):
    code = """
import sys
from tenure.cli.main import main
try:
    main()
finally:
    print("tenure.app" in sys.modules)
"""
    assert ask(folder, "tenure enq", code) == ("plain,enqueue\nFalse\n", "")
