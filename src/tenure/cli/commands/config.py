"""`tenure config`: what editors need to check a settings file."""

import json
from pathlib import Path

import click

from tenure import settings

SCHEMA = Path(settings.__file__).with_name("tenure.schema.json")


@click.group()
def config() -> None:
    """Print the JSON schema of the settings file."""


@config.command()
@click.option("--pyproject", is_flag=True, help="The schema of a pyproject.toml with a table [tool.tenure].")
def schema(pyproject: bool) -> None:
    """Print the JSON schema of tenure.toml, with which an editor completes, explains and checks the settings."""
    text = SCHEMA.read_text("utf-8")
    click.echo(_within_tool(text) if pyproject else text, nl=False)


def _within_tool(text: str) -> str:
    """References begin at the root of a schema, so the definitions move there."""
    table = json.loads(text)
    root = {name: table.pop(name) for name in ("$schema", "$id", "definitions")}
    root["$id"] = root["$id"].replace("tenure.schema.json", "pyproject.schema.json")
    tool = {"type": "object", "properties": {"tenure": table}}
    return json.dumps({**root, "type": "object", "properties": {"tool": tool}}, indent=2, ensure_ascii=False) + "\n"
