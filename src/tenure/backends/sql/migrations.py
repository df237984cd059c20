"""Migrations: numbered .sql files applied in order, each with its version in one transaction."""

import re
from importlib import resources

from tenure.backends.sql.sqlite.database import Database
from tenure.errors import SchemaError

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


def stored(database: Database) -> int:
    """The version in the database; 0 when it holds no schema of ours."""
    if not database.read("SELECT 1 FROM sqlite_master WHERE name = 'tenure_schema'"):
        return 0
    rows = database.read("SELECT version FROM tenure_schema")
    return int(rows[0][0]) if rows else 0


def migrate(database: Database, dialect: str) -> list[str]:
    """Apply what is missing; safe to run from many processes at once."""
    check(database, dialect)
    taken = []
    if stored(database) < newest(dialect):
        with database.write() as tx:
            tx.execute(_CREATE)
            for version, name, text in steps(dialect):
                if version > stored(database):
                    for statement in statements(text):
                        tx.execute(statement)
                    tx.execute(_FORGET)
                    tx.execute(f"{_REMEMBER} ({version})")
                    taken.append(name)
    return taken


def check(database: Database, dialect: str) -> None:
    """Refuse a schema made by a newer release: this one would not understand it."""
    version = stored(database)
    if version > newest(dialect):
        raise SchemaError(
            f"the database {str(database.path)!r} has schema version {version}, but this release of Tenure "
            f"knows only {newest(dialect)}; upgrade Tenure"
        )


def statements(text: str) -> list[str]:
    """The statements of a migration; its files hold no semicolons except at the end of one."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    return [statement.strip() for statement in without_comments.split(";") if statement.strip()]
