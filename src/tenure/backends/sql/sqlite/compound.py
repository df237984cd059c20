"""Compound statements: several statements that SQLite runs as one step, which `database.py` explains."""

import re
from typing import NamedTuple


class CompoundStatement(NamedTuple):
    """Several statements as one: the trigger of a view whose only row holds their parameters."""

    statements: tuple[str, ...]
    view: str
    trigger: str
    drop: str
    call: str


def compound(name: str, *statements: str) -> CompoundStatement:
    names = dict.fromkeys(re.findall(r":(\w+)", " ".join(statements)))
    body = re.sub(r":(\w+)", r"NEW.\1", ";\n".join(statements))
    return CompoundStatement(
        statements,
        f"CREATE TEMP VIEW {name} AS SELECT {', '.join(f'NULL AS {each}' for each in names)}",
        f"CREATE TEMP TRIGGER {name}_step INSTEAD OF INSERT ON {name} BEGIN\n{body};\nEND",
        f"DROP TRIGGER temp.{name}_step",
        f"INSERT INTO {name} VALUES ({', '.join(f':{each}' for each in names)})",
    )
