"""Migrations: numbered .sql files applied in order, each with its version in one transaction."""

import re
from importlib import resources

from tenure.backends.sql.dialect import Dialect, Rows
from tenure.errors import SchemaError

DIALECTS = ("sqlite", "postgresql", "mysql")
_CREATE = "CREATE TABLE IF NOT EXISTS tenure_schema (version INTEGER NOT NULL)"
_FORGET = "DELETE FROM tenure_schema"
_REMEMBER = "INSERT INTO tenure_schema VALUES"


def steps(dialect: str) -> list[tuple[int, str, str]]:
    """Version, name and text of every migration of a dialect, in order."""
    folder = resources.files("tenure.backends.sql") / "schema" / dialect
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return [(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names]


def script(dialect: str) -> str:
    """Every migration, for those who apply them by hand to an empty database."""
    version, _, _ = steps(dialect)[-1]
    texts = [f"-- {name}\n{text.strip()}\n" for _, name, text in steps(dialect)]
    return "\n".join([*texts, f"{_CREATE};\n{_FORGET};\n{_REMEMBER} ({version});\n"])


def newest(dialect: str) -> int:
    return steps(dialect)[-1][0]


def indexes(dialect: str) -> set[str]:
    """The names of all indexes that the migrations leave behind; those of primary keys have none."""
    found: set[str] = set()
    for _, _, text in steps(dialect):
        for dropped, name in re.findall(r"(DROP )?\b(?:INDEX|KEY) (tenure_\w+)", text):
            (found.discard if dropped else found.add)(name)
    return found


def missing_indexes(dialect: Dialect) -> list[str]:
    return sorted(indexes(dialect.name) - {name for (name,) in dialect.read(dialect.index_names, {})})


def stored(dialect: Dialect) -> int:
    """The version in the database; 0 when it holds no schema of ours."""
    return _version(dialect, dialect.read)


def migrate(dialect: Dialect) -> list[str]:
    """Apply what is missing; safe to run from many processes at once."""
    check(dialect)
    taken = []
    if stored(dialect) < newest(dialect.name):
        with dialect.migrating() as rows:
            rows(_CREATE, {})
            for version, name, text in steps(dialect.name):
                if version > _version(dialect, rows):
                    for statement in statements(text):
                        rows(statement, {})
                    rows(_FORGET, {})
                    rows(f"{_REMEMBER} ({version})", {})
                    taken.append(name)
    return taken


def check(dialect: Dialect) -> None:
    """Refuse a schema made by a newer release: this one would not understand it."""
    version = stored(dialect)
    if version > newest(dialect.name):
        raise SchemaError(
            f"the database {dialect.place!r} has schema version {version}, but this release of Tenure "
            f"knows only {newest(dialect.name)}; upgrade Tenure"
        )


def _version(dialect: Dialect, rows: Rows) -> int:
    if not rows(dialect.schema_exists, {}):
        return 0
    found = rows("SELECT version FROM tenure_schema", {})
    return int(found[0][0]) if found else 0


def statements(text: str) -> list[str]:
    """The statements of a migration; its files hold no semicolons except at the end of one, and between two `$$`."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    found = re.findall(r"(?:\$\$.*?\$\$|[^;])+", without_comments, re.DOTALL)
    return [statement.strip() for statement in found if statement.strip()]
