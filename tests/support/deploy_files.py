"""The files in `deploy`: instructions of the Dockerfile, documents in YAML, and the commands of `tenure` in them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from tenure.cli.main import cli
from tenure.settings.environment import from_environment, type_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SECRETS = {  # what the files of secrets contain, by the setting
    "TENURE_URL": "postgresql://tenure:secret@postgres/tenure",
    "TENURE_KEYS": "first:c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA",
    "TENURE_DASHBOARD__USERS": '{"ada": {"password": "scrypt$14$8$1$c2FsdA$aGFzaA", "role": "admin"}}',
}


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Each instruction with its arguments; lines that end in a backslash are joined."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest.strip()) for line in lines if line.strip() for word, _, rest in [line.partition(" ")]]


def documents(*patterns: str) -> dict[str, Any]:
    """The documents of these files, by path and kind."""
    found = {}
    for path in sorted(each for pattern in patterns for each in DEPLOY.glob(pattern)):
        for number, document in enumerate(yaml.safe_load_all(path.read_text("utf-8"))):
            found[f"{path.relative_to(DEPLOY)}:{number}:{document['kind']}"] = document
    return found


def pod_of(document: Mapping[str, Any]) -> Any:
    """The specification of the pods that an object of Kubernetes or KEDA starts; None if it starts none."""
    spec = document.get("spec", {})
    template = spec.get("template") or spec.get("jobTargetRef", {}).get("template")
    return template and template["spec"]


def commands_in(value: Any) -> Iterator[list[str]]:
    """The commands of probes and hooks: every list that begins with `tenure`."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from commands_in(each)
    elif isinstance(value, list):
        if value and value[0] == "tenure":
            yield value[1:]
        for each in value:
            yield from commands_in(each)


def parse_command(words: Sequence[str]) -> click.Context:
    """Parse a command line with the command line itself, without running it; raises UsageError."""
    context = cli.make_context("tenure", list(words))
    while isinstance(context.command, click.Group):
        remaining = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, remaining)
        assert command is not None, words
        context = command.make_context(name, rest, parent=context)
    return context


def check_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the variables of a container set; each must be one, and its value must be accepted."""
    own = {name: value for name, value in variables.items() if name.startswith("TENURE_")}
    plain = {name.removesuffix("_FILE"): SECRETS.get(name.removesuffix("_FILE"), value) for name, value in own.items()}
    for name in plain:
        assert type_of(name.removeprefix("TENURE_").lower().split("__")) is not None, f"{name} is no setting"
    return from_environment(plain)
