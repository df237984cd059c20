"""The Dockerfile follows the rules that a linter and a cautious cluster have; no engine is needed to check them."""

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch

import pytest

from tests.support.deploy_files import DEPLOY, ROOT, check_environment, instructions, parse_command
from tests.support.docs_pages import blocks

FILE = DEPLOY / "docker" / "Dockerfile"
STEPS = instructions(FILE.read_text("utf-8"))
FINAL = STEPS[max(number for number, (word, _) in enumerate(STEPS) if word == "FROM") :]
PAGE = ROOT / "docs" / "how-to" / "run-in-containers.md"
EXAMPLES = [block for block in blocks(PAGE) if block.language == "dockerfile"]
FILES = {"deploy": STEPS, **{block.place: instructions(block.text) for block in EXAMPLES}}


def of(word, steps):
    return [rest for name, rest in steps if name == word]


@pytest.mark.parametrize("name", FILES)
def test_every_instruction_is_known(name):
    known = {"ARG", "FROM", "LABEL", "ENV", "WORKDIR", "COPY", "RUN", "USER", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}
    assert {word for word, _ in FILES[name]} <= known | {"CMD"}


@pytest.mark.parametrize("name", FILES)
def test_a_base_image_has_a_tag_that_is_not_latest(name):
    arguments = dict(each.split("=", 1) for each in of("ARG", FILES[name]) if "=" in each)
    for base in of("FROM", FILES[name]):
        image = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base.split()[0])
        assert re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+", image), image


@pytest.mark.parametrize("name", FILES)
def test_commands_are_lists_without_a_shell_and_exist(name):
    words = [json.loads(of(word, FILES[name])[-1]) for word in ("ENTRYPOINT", "CMD") if of(word, FILES[name])]
    command = [each for part in words for each in part]
    if command:
        assert command[0] == "tenure"
        parse_command(command[1:])
    assert command or of("FROM", FILES[name])[-1].startswith("tenure:")


def test_the_image_runs_as_a_user_with_a_number_who_owns_nothing_in_it():
    (user,) = of("USER", FINAL)
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert f"--uid {user.partition(':')[0]}" in " ".join(of("RUN", FINAL))
    assert "--chown" not in " ".join(of("COPY", FINAL))


def test_the_image_contains_no_tools_to_build_with():
    assert of("COPY", FINAL) == ["--from=build /opt/tenure /opt/tenure"]
    assert not re.search(r"apt|pip|curl|gcc", " ".join(of("RUN", FINAL)))
    assert "pip uninstall --yes pip" in " ".join(of("RUN", STEPS))


def test_it_stops_by_the_signal_that_drains_and_asks_its_worker_for_its_health():
    assert of("STOPSIGNAL", FINAL) == ["SIGTERM"]
    (check,) = of("HEALTHCHECK", FINAL)
    options, _, command = check.partition(" CMD ")
    assert {option.partition("=")[0] for option in options.split()} == {
        "--interval", "--timeout", "--start-period", "--retries",
    }  # fmt: skip
    words = json.loads(command)
    assert words[0] == "tenure"
    assert parse_command(words[1:]).params["probe"] == "live"


def test_its_variables_are_settings():
    variables = dict(each.split("=", 1) for line in of("ENV", FINAL) for each in shlex.split(line))
    assert check_environment(variables) == {"probe_path": "/tmp/tenure-probe"}
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"


def test_what_it_copies_exists_and_is_sent_to_the_engine():
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split("\n")
    sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    copied = [word for line in of("COPY", STEPS) if "--from" not in line for word in line.split()[:-1]]
    assert "*" in ignored
    assert copied
    for path in copied:
        assert (ROOT / path).exists(), path
        assert any(fnmatch(path, pattern) for pattern in sent), f".dockerignore leaves out {path}"


def test_its_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (given,) = [each.partition("=")[2] for each in of("ARG", STEPS) if each.startswith("EXTRAS=")]
    assert set(given.split(",")) <= extras.keys()
